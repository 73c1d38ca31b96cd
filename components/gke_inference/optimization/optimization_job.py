"""A job that optimizes or evaluates a model, which users start from a suspended CronJob."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    hardened_pod,
    labels_for,
    manifest,
    register,
)
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.versions import image

from .rules import check_evaluation, check_quantization
from .settings import Evaluation, Quantization, Tuning

COMPONENT: Final = "optimization"
"""Value of `app.kubernetes.io/component` on its objects."""
_FILE: Final = "settings.json"
_FOLDER: Final = "/etc/optimization"
_KEY_FOLDER: Final = "/etc/optimization-key"
_WORK: Final = "/work"
_CONTAINER: Final = "optimization"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_CHIP: Final = "nvidia.com/gpu"
_USER: Final = 1000
_NEVER: Final = "0 0 1 1 *"
"""Schedule of a CronJob, which must have one. It is suspended, so no time is ever due."""
_KEPT_SECONDS: Final = 7 * 86_400
_RETRIES: Final = 2
_EVALUATION_DISK: Final = "10Gi"
"""Space for the questions of tasks, which come from the hub (assumed)."""


class JobChipsArgs(TypedDict):
    """The part of a GPU machine that a job takes: all chips of a node, as Kueue counts them."""

    chips: Annotated[int, Field(ge=1, le=16)]
    """GPUs."""
    cpus: Annotated[int, Field(ge=1, le=1000)]
    """Requested CPUs."""
    memory_gib: Annotated[int, Field(ge=1, le=16_384)]
    """Requested and maximum main memory, in GiB."""
    scratch_gib: Annotated[int, Field(ge=10, le=65_536)]
    """Size of the volume for the model and the result, in GiB."""


class QuantizeArgs(TypedDict):
    """Quantization of a model."""

    model: str
    """Folder of the model in the bucket; FOLDER@VERSION for one version."""
    result: str
    """Folder of the quantized model in the bucket."""
    settings: Quantization
    """Scheme and calibration data."""


class TuneArgs(TypedDict):
    """Training of an adapter."""

    model: str
    """Folder of the model in the bucket; FOLDER@VERSION for one version."""
    result: str
    """Folder of the adapter in the bucket."""
    settings: Tuning
    """Data and hyperparameters of the adapter."""


class EvaluatedArgs(TypedDict):
    """A model behind the gateway."""

    model: str
    """Name in requests: a model or an adapter."""
    weights: str
    """Folder of its weights in the bucket; FOLDER@VERSION for one version."""
    version: NotRequired[str]
    """Version of a model with a canary, or `stable`: the value of the header x-model-version.
    Default: requests have none."""


class EvaluateArgs(TypedDict):
    """Comparison of two models."""

    baseline: EvaluatedArgs
    """Model that the candidate must not be worse than."""
    candidate: EvaluatedArgs
    """Model to evaluate."""
    endpoint: pulumi.Input[str]
    """URL of the gateway in front of both."""
    evaluation_name: str
    """Name of the evaluation, below `evaluations` in the bucket."""
    settings: Evaluation
    """Tasks, tolerance and other settings of the comparison."""
    key_secret: NotRequired[str]
    """Kubernetes Secret with the key of a client team in `key`, if the gateway requires one."""


class OptimizationJobArgs(TypedDict):
    """Inputs of `OptimizationJob`: exactly one of `quantize`, `tune` and `evaluate`."""

    bucket: pulumi.Input[str]
    """Bucket of the weights, the data and the results."""
    job_name: str
    """Name of the CronJob."""
    namespace: str
    """Namespace of a team with a queue (`JobNamespace`)."""
    queue: str
    """Queue of the job."""
    service_account: str
    """Kubernetes service account that may write to the bucket (`WorkloadIdentity`)."""
    chips: NotRequired[JobChipsArgs]
    """Hardware of the job. Required with `quantize` and `tune`; an evaluation needs none."""
    evaluate: NotRequired[EvaluateArgs]
    """Compares two models through the gateway, and writes the result to the bucket."""
    quantize: NotRequired[QuantizeArgs]
    """Quantizes a model."""
    tune: NotRequired[TuneArgs]
    """Trains a LoRA adapter of a model."""


class OptimizationJob(pulumi.ComponentResource):
    """A suspended CronJob: `kubectl create job --from=cronjob/NAME` runs it in its queue.

    A preempted run starts again. Pass the cluster's Kubernetes provider in `opts`.
    """

    job_name: pulumi.Output[str]
    """Name of the CronJob."""

    def __init__(
        self, name: str, args: OptimizationJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:OptimizationJob", name, {}, opts)
        args = checked(OptimizationJobArgs, args)
        job = name_of(args, "job_name", "namespace")
        name_of(args, "namespace", "namespace")
        keep(_problems(args))
        given = {"bucket": args["bucket"]}
        if "evaluate" in args:
            given["endpoint"] = args["evaluate"]["endpoint"]
        content = pulumi.Output.all(**given).apply(lambda found: document(args, found))
        labels = labels_for(job, COMPONENT)
        files = manifest("config_map", job, args["namespace"], labels=labels, data={_FILE: content})
        made = register(f"{name}-settings", files, under(self))
        runs = register(name, cron_job(args), under(self, depends_on=[made]))
        self.job_name = runs.urn.apply(lambda _: job)
        self.register_outputs({"jobName": self.job_name})


def _problems(args: OptimizationJobArgs) -> Iterator[InputError]:
    roles = [role for role in ("evaluate", "quantize", "tune") if role in args]
    if len(roles) != 1:
        rule = "must be set, and only one of evaluate, quantize and tune"
        yield InputError("evaluate", rule, Bare(", ".join(roles) or "none"))
    elif ("chips" in args) == (roles[0] == "evaluate"):
        rule = "must be set with quantize and tune, and not with evaluate"
        yield InputError("chips", rule, Bare(roles[0]))
    if "quantize" in args:
        yield from check_quantization("quantize.settings", args["quantize"]["settings"])
    if "evaluate" in args:
        yield from check_evaluation("evaluate.settings", args["evaluate"]["settings"])


def document(args: OptimizationJobArgs, given: Mapping[str, str]) -> str:
    """Return the settings of the program (workloads/optimization/settings.py) as JSON.

    Args:
        args: Arguments of the component.
        given: `bucket`, and `endpoint` of an evaluation, once known.
    """
    found: dict[str, Any] = {**given, "work": _WORK}
    if "evaluate" in args:
        evaluate = args["evaluate"]
        found |= _set(evaluate["settings"]) | {"name": evaluate["evaluation_name"]}
        for side in ("baseline", "candidate"):
            found[side] = {"version": "", **evaluate[side]}
        if evaluate.get("key_secret"):
            found["key_file"] = f"{_KEY_FOLDER}/key"
    for made in (args.get("quantize"), args.get("tune")):
        if made is not None:
            found |= _set(made["settings"]) | {"model": made["model"], "result": made["result"]}
    return json.dumps(found, indent=1, sort_keys=True)


def _set(settings: Evaluation | Quantization | Tuning) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True)


def cron_job(args: OptimizationJobArgs) -> Manifest:
    """Return the CronJob. A preempted spot machine is no failure of its jobs."""
    name = args["job_name"]
    labels = labels_for(name, COMPONENT)
    disrupted = {"status": "True", "type": "DisruptionTarget"}
    template = {"metadata": {"labels": labels}, "spec": _pod(args)}
    job = {
        "backoffLimit": _RETRIES,
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [disrupted]}]},
        "template": template,
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
    }
    return manifest(
        "cron_job",
        name,
        args["namespace"],
        labels=labels,
        spec={
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {
                "metadata": {"labels": {**labels, _QUEUE: args["queue"]}},
                "spec": job,
            },
            "schedule": _NEVER,
            "suspend": True,
        },
    )


def _pod(args: OptimizationJobArgs) -> Manifest:
    mounts: list[Manifest] = [
        {"mountPath": _FOLDER, "name": "settings", "readOnly": True},
        {"mountPath": _WORK, "name": "work"},
    ]
    volumes: list[Manifest] = [
        {"configMap": {"name": args["job_name"]}, "name": "settings"},
        {"name": "work", **_scratch(args)},
    ]
    secret = args["evaluate"].get("key_secret") if "evaluate" in args else None
    if secret is not None:
        mounts.append({"mountPath": _KEY_FOLDER, "name": "key", "readOnly": True})
        volumes.append({"name": "key", "secret": {"secretName": secret}})
    role = next(role for role in ("evaluate", "quantize", "tune") if role in args)
    variables = {"HF_HOME": f"{_WORK}/huggingface", "HOME": _WORK, "TMPDIR": _WORK}
    container = {
        "args": [role, f"{_FOLDER}/{_FILE}"],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "image": image("evaluation" if role == "evaluate" else "optimization").reference,
        "name": _CONTAINER,
        "resources": _resources(args),
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": mounts,
    }
    return {
        "automountServiceAccountToken": False,
        "containers": [container],
        "restartPolicy": "Never",
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": args["service_account"],
        "volumes": volumes,
    }


def _scratch(args: OptimizationJobArgs) -> Manifest:
    if "chips" not in args:
        return {"emptyDir": {"sizeLimit": _EVALUATION_DISK}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{args['chips']['scratch_gib']}Gi"}},
        "storageClassName": "premium-rwo",
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _resources(args: OptimizationJobArgs) -> Manifest:
    if "chips" not in args:
        return {"limits": {"memory": "4Gi"}, "requests": {"cpu": "500m", "memory": "2Gi"}}
    chips = args["chips"]
    memory = f"{chips['memory_gib']}Gi"
    return {
        "limits": {_CHIP: str(chips["chips"]), "memory": memory},
        "requests": {"cpu": str(chips["cpus"]), "memory": memory},
    }
