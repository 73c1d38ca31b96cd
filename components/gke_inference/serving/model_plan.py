"""The plan of a model: every value derived from its arguments. Creates no resources."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.names import ONE_POD_FORMS, deployment_names
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent, intent_of
from gke_inference.intent.replicas import range_problems
from gke_inference.intent.rules import problems
from gke_inference.intent.words import Form, Spanning
from gke_inference.serving.hardware import Hardware, hardware
from gke_inference.serving.kv.offload import tier_volumes
from gke_inference.serving.launch import files_of, spec_of
from gke_inference.serving.launcher.commands import arguments
from gke_inference.serving.launcher.spec import Serving, Spec
from gke_inference.serving.live_adapters import LiveAdapters, with_live
from gke_inference.serving.pod_spec import Pod
from gke_inference.serving.serving import draft_of, further_of, serving_of
from gke_inference.serving.startup import start_minutes
from gke_inference.serving.weights import ClaimPath, Storage, bucket_path, storage

CLUSTER_SET: Final = "RayClusterSet"
"""Target kind of a model whose replicas are Ray clusters."""

_PATH = re.compile(r"[^\s/.@][^\s@]*(?<!/)")


@dataclass(frozen=True)
class ModelPlan:
    """A checked model."""

    model: str
    namespace: str
    form: Form
    served_names: tuple[str, ...]
    pod: Pod
    nodes: dict[str, Hardware]
    """Hardware by kind, in the order of preference."""
    replicas: dict[str, int]
    """Initial replicas by kind; `any` in forms whose pod runs on both kinds."""
    most: int
    """Maximum number of replicas, which is that of Ray clusters, with suspended ones."""
    files: dict[str, Storage]
    serving: dict[str, Serving]
    """Serving configuration of the engine, by kind of hardware."""
    spanning: dict[str, str]
    """How the engine spans hosts, for each kind that runs as a group of pods."""
    has_gate: bool = False
    """Whether a weights gate in the namespace starts the replicas once the weights exist."""

    @property
    def arguments(self) -> dict[str, list[str]]:
        """Arguments of the engine, by kind of hardware."""
        return {kind: arguments(serving) for kind, serving in self.serving.items()}

    @property
    def spec(self) -> Spec:
        """Spec that the launchers read."""
        pod = self.pod
        return spec_of(
            self.model,
            self.serving,
            pod.longest_request_seconds,
            pod.settle_seconds_of_launcher,
            start_minutes(pod.intent, self.serving.values()) * 60,
        )

    @property
    def launcher(self) -> dict[str, str]:
        """Files that the launchers and engines read, by name."""
        return files_of(self.spec, self.pod.intent.settings.chat_template)

    @property
    def config(self) -> str:
        """Name of the ConfigMap with the launcher and its spec."""
        return f"{self.model}-{self.pod.role}-engine" if self.pod.role else f"{self.model}-engine"

    @property
    def network_claims(self) -> str:
        """Name of the ResourceClaimTemplate of pods with RDMA."""
        return f"{self.model}-{self.pod.role}-rdma" if self.pod.role else f"{self.model}-rdma"

    @property
    def deployments(self) -> dict[str, str]:
        """Deployment names by kind of hardware, or one under `any`."""
        return deployment_names(self.model, self.form, self.pod.role, self.nodes)

    @property
    def target_kinds(self) -> dict[str, str]:
        """Object kind of each entry in `deployments`.

        `Deployment`, or `LeaderWorkerSet` for several hosts. With KubeRay it is `RayClusterSet`,
        whose clusters are NAME-0, NAME-1 and so on.
        """
        groups = {"kuberay": CLUSTER_SET}
        return {
            kind: groups.get(self.spanning[kind], "LeaderWorkerSet")
            if kind in self.nodes and self.nodes[kind].is_group
            else "Deployment"
            for kind in self.deployments
        }

    @property
    def placements(self) -> list[str]:
        """Rungs that the model may run on, by kind, each in the order of use."""
        return [rung.label for node in self.nodes.values() for rung in node.rungs]


def model_plan(args: Mapping[str, Any], rungs: list[Rung]) -> ModelPlan:
    """Return the checked plan of a model.

    Args:
        args: Inputs of a `ModelServer` with their types.
        rungs: Checked rungs of the model.

    Raises:
        InputError: An argument contradicts another or the hardware.
    """
    intent = intent_of(args, {f"rungs[{at}]": rung for at, rung in enumerate(rungs)})
    for problem in (*problems(intent), *range_problems("replicas", args["replicas"])):
        raise problem
    nodes = _nodes(args["compute_classes"], intent)
    live = _live(intent)
    pod = Pod(intent=intent, live=live, service_account=args["service_account"])
    spanning = _spanning(intent)
    files = _files(args, intent, live)
    return ModelPlan(
        files=files,
        form=intent.form,
        has_gate=bool(args.get("has_gate", False)),
        model=intent.model,
        most=args["replicas"].max,
        namespace=args["namespace"],
        nodes=nodes,
        pod=pod,
        replicas=_replicas(args, intent),
        served_names=pod.names,
        serving={
            kind: serving_of(intent, nodes[kind], files[kind], _executor(spanning, kind), live)
            for kind in nodes
        },
        spanning=spanning,
    )


def _files(
    args: Mapping[str, Any], intent: ServingIntent, live: LiveAdapters | None
) -> dict[str, Storage]:
    """Return the storage of a model's files, by kind of hardware."""
    weights = bucket_path(intent.weights, "weights")
    adapters = {
        name: bucket_path(uri, f"adapters.{name}") for name, uri in sorted(intent.adapters.items())
    }
    files = {
        kind: storage(
            kind,
            intent.model,
            weights,
            adapters,
            bucket_claim=args.get("weights_bucket_claim"),
            cache_bucket=args.get("cache_bucket"),
            claim=args.get("weights_claim"),
            draft=draft_of(intent),
            engine_name=intent.engine,
            further=further_of(intent),
            is_autopilot=bool(args.get("autopilot", False)),
            is_streamed=engine(intent.engine).hardware[kind].streamed,
            weights_gib=intent.bucket_gib,
        )
        for kind in intent.kinds
    }
    if live is not None:
        files = {kind: with_live(at, live, intent.task) for kind, at in files.items()}
    for volume, mount in tier_volumes(intent.settings.kv_offload, intent.kv_claim):
        files = {kind: at.extended(volume, mount, {}) for kind, at in files.items()}
    return files


def _live(intent: ServingIntent) -> LiveAdapters | None:
    folder = intent.live_adapters
    if folder is None:
        return None
    where = "live_adapters.source"
    if folder.claim is None:
        source = bucket_path(folder.source, where)
    elif _PATH.fullmatch(folder.source):
        source = ClaimPath(folder.claim, folder.source)
    else:
        raise InputError(where, "must be a path in the volume of its claim", folder.source)
    return LiveAdapters(max_rank=folder.max_rank, slots=folder.slots, source=source)


def _nodes(classes: Mapping[str, str], intent: ServingIntent) -> dict[str, Hardware]:
    nodes: dict[str, Hardware] = {}
    for kind in intent.kinds:
        key = "any" if intent.form in ONE_POD_FORMS else kind
        if key not in classes:
            raise InputError("compute_classes", f"must have {key!r}", sorted(classes))
        nodes[kind] = hardware(kind, classes[key], list(intent.rungs.values()))
    return nodes


def _spanning(intent: ServingIntent) -> dict[str, str]:
    """Return how each group spans its hosts.

    On TPU, the default is Ray (tpu-inference, TPU_MULTIHOST_BACKEND). On GPU, vLLM's own processes
    span hosts without Ray (docs.vllm.ai deployment/frameworks/lws).
    """
    return {
        kind: (intent.spanning or (Spanning.RAY if kind == "tpu" else Spanning.ENGINE)).value
        for kind in intent.groups
    }


def _executor(spanning: Mapping[str, str], kind: str) -> str | None:
    """Return the engine's multi-host backend; with KubeRay, the engine uses Ray."""
    backend = spanning.get(kind)
    return "ray" if backend == "kuberay" else backend


def _replicas(args: Mapping[str, Any], intent: ServingIntent) -> dict[str, int]:
    """Return the initial replicas by kind.

    The autoscaler scales up from zero only what it scaled to zero itself (condition ScaledToZero).
    A Deployment that starts at zero would stay there.
    """
    count = max(1, args["replicas"].min)
    if intent.form in ONE_POD_FORMS:
        return {"any": count}
    if len(intent.kinds) == 1:
        return {intent.kinds[0]: count}
    standby: int = args.get("standby_replicas", 1)
    first, second = intent.kinds
    return {first: count, second: max(1, standby)}
