"""From a model's arguments to its plan: every derived number. Nothing here creates a resource."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.names import deployment_names
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent, intent_of
from gke_inference.intent.readers import whole
from gke_inference.intent.rules import problems
from gke_inference.serving.hardware import Hardware, hardware
from gke_inference.serving.launch import spec_of
from gke_inference.serving.launcher.commands import arguments
from gke_inference.serving.launcher.spec import Serving, Spec
from gke_inference.serving.live_adapters import LiveAdapters, with_live
from gke_inference.serving.pod_spec import Pod
from gke_inference.serving.serving import draft_of, serving_of
from gke_inference.serving.weights import ClaimPath, Storage, bucket_path, storage
from gke_inference.sizing.memory import weights_gib

_PATH = re.compile(r"[^\s/.@][^\s@]*(?<!/)")


@dataclass(frozen=True)
class ModelPlan:
    """A checked model."""

    model: str
    namespace: str
    form: str
    served_names: tuple[str, ...]
    pod: Pod
    nodes: dict[str, Hardware]
    """Hardware by kind, `tpu` and `gpu`."""
    replicas: dict[str, int]
    """Initial replicas by kind; `any` in the dual-container form."""
    files: dict[str, Storage]
    serving: dict[str, Serving]
    """What an engine serves, by kind of hardware."""
    spanning: dict[str, str]
    """For each kind that is a group of pods: how its engine spans hosts."""
    has_gate: bool = False
    """Whether a gate of the namespace starts the replicas once the weights are there."""

    @property
    def arguments(self) -> dict[str, list[str]]:
        """The engine's command line behind its program, by kind of hardware."""
        return {kind: arguments(serving) for kind, serving in self.serving.items()}

    @property
    def spec(self) -> Spec:
        """What the launchers are told."""
        pod = self.pod
        return spec_of(
            self.model,
            self.serving,
            pod.longest_request_seconds,
            pod.settle_seconds_of_launcher,
        )

    @property
    def config(self) -> str:
        """Name of the ConfigMap with the launcher and its spec."""
        return f"{self.model}-{self.pod.role}-engine" if self.pod.role else f"{self.model}-engine"

    @property
    def deployments(self) -> dict[str, str]:
        """Deployment name by kind of hardware, or one under `any`."""
        return deployment_names(self.model, self.form, self.pod.role, self.nodes)

    @property
    def target_kinds(self) -> dict[str, str]:
        """What each of `deployments` is: `Deployment`, or `LeaderWorkerSet` over several hosts."""
        return {
            kind: "LeaderWorkerSet"
            if kind in self.nodes and self.nodes[kind].is_group
            else "Deployment"
            for kind in self.deployments
        }

    @property
    def placements(self) -> list[str]:
        """The rungs the model may run on, TPU first, each in the order it is tried."""
        return [rung.label for node in self.nodes.values() for rung in node.rungs]


def model_plan(args: Mapping[str, Any], rungs: list[Rung]) -> ModelPlan:
    """Return the checked plan of a model.

    Args:
        args: Of a `ModelServer`.
        rungs: Its rungs, checked.

    Raises:
        InputError: An argument is out of range or contradicts another or the hardware.
    """
    intent = intent_of(args, {f"rungs[{at}]": rung for at, rung in enumerate(rungs)})
    for problem in problems(intent):
        raise problem
    nodes = _nodes(args["compute_classes"], intent)
    live = _live(intent)
    size_gib = weights_gib(intent.parameters_billion, intent.weight_bits)
    pod = Pod(intent=intent, live=live, service_account=args["service_account"])
    spanning = _spanning(intent)
    files = _files(args, intent, size_gib, live)
    return ModelPlan(
        files=files,
        form=intent.form,
        has_gate=bool(args.get("has_gate", False)),
        model=intent.model,
        namespace=args["namespace"],
        nodes=nodes,
        pod=pod,
        replicas=_replicas(args, intent),
        served_names=pod.names,
        serving={
            kind: serving_of(intent, nodes[kind], files[kind], spanning.get(kind), live)
            for kind in nodes
        },
        spanning=spanning,
    )


def _files(
    args: Mapping[str, Any], intent: ServingIntent, size_gib: float, live: LiveAdapters | None
) -> dict[str, Storage]:
    """Return where a model's files come from, by kind of hardware."""
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
            cache_bucket=args.get("cache_bucket"),
            claim=args.get("weights_claim"),
            draft=draft_of(intent),
            engine=intent.engine,
            is_streamed=engine(intent.engine).hardware[kind].streamed,
            weights_gib=size_gib,
        )
        for kind in intent.kinds
    }
    return files if live is None else {kind: with_live(at, live) for kind, at in files.items()}


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
        key = "any" if intent.form == "dual-container" else kind
        if key not in classes:
            raise InputError("compute_classes", f"must have {key!r}", sorted(classes))
        nodes[kind] = hardware(kind, classes[key], list(intent.rungs.values()))
    return nodes


def _spanning(intent: ServingIntent) -> dict[str, str]:
    """Return how each group spans its hosts.

    On TPU that is Ray (tpu-inference, TPU_MULTIHOST_BACKEND). On GPU vLLM's own processes do it
    without Ray (docs.vllm.ai deployment/frameworks/lws).
    """
    return {
        kind: intent.spanning or ("ray" if kind == "tpu" else "engine") for kind in intent.groups
    }


def _replicas(args: Mapping[str, Any], intent: ServingIntent) -> dict[str, int]:
    count = whole(args, "replicas", 0, 1000)
    if intent.form == "dual-container":
        return {"any": count}
    if len(intent.kinds) == 1:
        return {intent.kinds[0]: count}
    standby = whole(args, "standby_replicas", 0, 1000, default=1)
    # From zero the autoscaler starts only what it brought to zero itself (its condition
    # ScaledToZero): a Deployment that begins at zero would stay there.
    return {"tpu": count, "gpu": max(1, standby)}
