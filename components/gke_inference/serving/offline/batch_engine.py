"""An engine for the batches of one model: a Job with an engine and a worker in its pod."""

import json
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import camel_path, checked
from gke_inference.base.inputs import name_of, rung_of, under
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    labels_for,
    manifest,
    register,
    role_binding,
    service_account,
)
from gke_inference.batches.settings import ENGINE_REQUESTS, EngineRequests
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.versions import api, image, replaced
from gke_inference.intent.intent import ModelServerArgs
from gke_inference.serving.model_objects import deployments, launcher_config
from gke_inference.serving.model_plan import ModelPlan, model_plan
from gke_inference.serving.model_server import MAPS
from gke_inference.serving.startup import start_minutes
from gke_inference.settings.fields import DEADLINE_SECONDS, DeadlineSeconds

from .batch_metrics import network_policy, pod_monitoring
from .batch_set import set_spec

COMPONENT = "batch-engine"
"""Value of `app.kubernetes.io/component` on its objects."""
WORKER = "batch"
"""Container of the worker, to whose arguments the service of batches adds the batch."""
_FILE = "settings.json"
_FOLDER = "/etc/batch"
_METRICS_PORT = 9091
_METRICS_PORT_NAME = "metrics"
_QUEUE = "kueue.x-k8s.io/queue-name"
START_ANNOTATION = "gke-inference/engine-start-seconds"
"""Annotation of the job with the maximum time for which its engine may have a node without being
ready, in seconds. The service of batches reads it (workloads/batch/settings.py)."""
_RETRIES = 3
_STARTS = 2
"""Starts for which a batch waits: the first also pulls the images, and one may fail (assumed)."""
_KEPT_SECONDS = 3600
_USER = 1000


class BatchEngineArgs(TypedDict):
    """Inputs of `BatchEngine`."""

    bucket: pulumi.Input[str]
    """Bucket of the batches: `BatchBucket.bucket_name`."""
    models: Annotated[dict[str, list[str]], Field(min_length=1)]
    """Endpoints of the model and of each of its adapters, by the name that requests use."""
    queue: str
    """Queue of the jobs (`JobNamespace`)."""
    server: ModelServerArgs
    """The model as a server: one kind of hardware, one host or TPU slices of several, and the
    namespace of the jobs. The service account must be able to write to the bucket of batches."""
    service_account: str
    """Kubernetes service account of the `BatchService`, which creates the jobs."""
    service_namespace: str
    """Namespace of that account."""
    deadline_seconds: NotRequired[DeadlineSeconds]
    """Maximum time to answer a request, in seconds. Default: 600."""
    images: NotRequired[dict[str, str]]
    """Images to use instead of others. The job is text in a ConfigMap, so nothing else replaces
    them. Default: none."""
    metrics_namespace: NotRequired[str]
    """Namespace of the Managed Prometheus collectors, which may then reach the pods. Default: pods
    accept what the namespace's policies allow."""
    requests: NotRequired[EngineRequests]
    """Maximum concurrent requests. Default: 256."""


class BatchEngine(pulumi.ComponentResource):
    """What the jobs of batches need, and the Job that a `BatchService` creates for each batch.

    A job waits in its queue, starts the engine and a worker, answers all requests of its batch, and
    ends. A preempted job continues where it ended. On slices of several hosts it is a JobSet with a
    pod for each host: depend on a `JobSetOperator` and a `QueueOperator` with `jobSets`. Pass the
    cluster's Kubernetes provider in `opts`.
    """

    job: pulumi.Output[str]
    """The Job or JobSet as JSON, without a name: one of `BatchServiceArgs.engines`."""

    def __init__(
        self, name: str, args: BatchEngineArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:BatchEngine", name, {}, opts)
        args = checked(BatchEngineArgs, args)
        plan = _plan(args)
        content = pulumi.Output.from_input(args["bucket"]).apply(
            lambda bucket: settings(args, bucket)
        )
        made = [
            register(f"{name}-{role}", obj, under(self))
            for role, obj in objects(args, plan, content).items()
        ]
        job = json.dumps(job_of(args, plan), sort_keys=True)
        self.job = pulumi.Output.all(*[each.urn for each in made]).apply(lambda _: job)
        self.register_outputs({"job": self.job})


def objects(args: BatchEngineArgs, plan: ModelPlan, content: Any) -> dict[str, Manifest]:
    """Return the objects that jobs need by role, and the permission to create jobs."""
    name, namespace = _name(plan), plan.namespace
    labels = labels_for(name, COMPONENT)
    (node,) = plan.nodes.values()
    rules = [
        {
            "apiGroups": [api("job_set" if node.is_group else "job").group],
            "resources": ["jobsets" if node.is_group else "jobs"],
            "verbs": ["create", "delete", "get"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},  # whether engines start
    ]
    collectors = args.get("metrics_namespace")
    subjects = [service_account(args["service_account"], args["service_namespace"])]
    return {
        "launcher": launcher_config(plan),
        "settings": manifest("config_map", name, namespace, labels=labels, data={_FILE: content}),
        "role": manifest("role", name, namespace, labels=labels, rules=rules),
        "binding": role_binding(name, name, subjects, namespace, labels=labels),
        "monitoring": pod_monitoring(
            name, namespace, labels, _METRICS_PORT_NAME, plan.pod.intent.engine
        ),
        **(
            {}
            if collectors is None
            else {"wall": network_policy(name, namespace, labels, collectors, _METRICS_PORT)}
        ),
    }


def settings(args: BatchEngineArgs, bucket: str) -> str:
    """Return the settings of the worker (workloads/batch/settings.py) as JSON."""
    found = {
        "bucket": bucket,
        "deadline_seconds": args.get("deadline_seconds", DEADLINE_SECONDS),
        "endpoint": "http://$(POD_IP):8000",
        "metrics_port": _METRICS_PORT,
        "models": {name: {"endpoints": each} for name, each in args["models"].items()},
        "max_in_flight": args.get("requests", ENGINE_REQUESTS),
    }
    return json.dumps(found, indent=1, sort_keys=True)


def job_of(args: BatchEngineArgs, plan: ModelPlan) -> Manifest:
    """Return the Job or JobSet, without a name.

    The engine runs as a sidecar: it starts before the worker, and ends after it. A preempted spot
    machine is no failure, nor is exit code 143: the worker was terminated, and has stored its
    answers. Kueue adds the nodes.
    """
    (made,) = deployments(plan).values()
    (node,) = plan.nodes.values()
    if node.is_group:
        group = made["spec"]["leaderWorkerTemplate"]
        spec = set_spec(
            _answering(plan, group["leaderTemplate"]),
            _of_jobs(plan, group["workerTemplate"]),
            container=WORKER,
            hosts=node.hosts,
            namespace=plan.namespace,
            restarts=_RETRIES,
        )
    else:
        exit_codes = {"containerName": WORKER, "operator": "In", "values": [143]}
        disrupted = {"status": "True", "type": "DisruptionTarget"}
        spec = {
            "backoffLimit": _RETRIES,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [disrupted]},
                    {"action": "Ignore", "onExitCodes": exit_codes},
                ]
            },
            "template": _answering(plan, made["spec"]["template"]),
        }
    labels = {**labels_for(_name(plan), COMPONENT), _QUEUE: args["queue"]}
    minutes = _STARTS * start_minutes(plan.pod.intent, plan.serving.values())
    annotations = {START_ANNOTATION: str(minutes * 60)}
    spec["ttlSecondsAfterFinished"] = _KEPT_SECONDS
    kind = "job_set" if node.is_group else "job"
    job = manifest(kind, "", plan.namespace, labels=labels, annotations=annotations, spec=spec)
    return replaced(job, args.get("images") or {})


def _answering(plan: ModelPlan, template: Manifest) -> Manifest:
    """Return the pod template of a server as that of a worker with the server beside it."""
    pod = _of_jobs(plan, template)["spec"]
    pod["initContainers"] = [{**pod["containers"][0], "restartPolicy": "Always"}]
    pod["containers"] = [_worker()]
    pod["volumes"] = [*pod["volumes"], {"configMap": {"name": _name(plan)}, "name": "settings"}]
    return template


def _of_jobs(plan: ModelPlan, template: Manifest) -> Manifest:
    """Return a pod template of a server for a job, to which Kueue adds the nodes."""
    for ours in ("nodeSelector", "tolerations", "topologySpreadConstraints"):
        template["spec"].pop(ours, None)
    template["spec"]["restartPolicy"] = "Never"
    template["metadata"]["labels"] = labels_for(_name(plan), COMPONENT)
    return template


def _worker() -> Manifest:
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return {
        "args": ["work", f"{_FOLDER}/{_FILE}"],
        "env": [{"name": "POD_IP", "valueFrom": address}],
        "image": image("batch").reference,
        "name": WORKER,
        "ports": [{"containerPort": _METRICS_PORT, "name": _METRICS_PORT_NAME}],
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "securityContext": {
            **HARDENED_CONTAINER,
            "runAsGroup": _USER,
            "runAsNonRoot": True,
            "runAsUser": _USER,  # an engine on TPU is root, and so is its pod
        },
        "volumeMounts": [{"mountPath": _FOLDER, "name": "settings", "readOnly": True}],
    }


def _name(plan: ModelPlan) -> str:
    return f"batch-{plan.model}"


def _plan(args: BatchEngineArgs) -> ModelPlan:
    """Return the plan of the model.

    Raises:
        pulumi.InputPropertyError: An argument is wrong, or the hardware cannot be that of a job.
    """
    name_of(args, "queue", "namespace")
    server = args["server"]
    rungs = [rung_of(rung, f"server.rungs[{at}]") for at, rung in enumerate(server["rungs"])]
    try:
        plan = model_plan(server, rungs)
        groups = [node for node in plan.nodes.values() if node.is_group]
        if len(plan.nodes) != 1 or any(node.kind != "tpu" for node in groups):
            rule = "must have one kind of hardware: one host, or TPU slices"
            raise InputError("rungs", rule, ", ".join(plan.placements))
    except InputError as error:
        path = f"server.{camel_path(error.path, MAPS)}"
        raise pulumi.InputPropertyError(path, error.message) from error
    return plan
