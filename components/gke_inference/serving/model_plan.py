"""From a model's arguments to its plan: every check and every derived number.

Nothing here knows Pulumi; errors are `ValueError` with the field first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.names import deployment_names
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.tracing import sampling_environment
from gke_inference.serving.disaggregation import ROLES, unfit
from gke_inference.serving.engine_rules import refused, wanted_of
from gke_inference.serving.fitting import check_rungs
from gke_inference.serving.hardware import Hardware, hardware
from gke_inference.serving.launch import spec_of
from gke_inference.serving.live_adapters import RANKS, LiveAdapters, with_live
from gke_inference.serving.pod_spec import Pod
from gke_inference.serving.serving import draft_of, is_streamed, serving_of, within
from gke_inference.serving.weights import Storage, bucket_path, storage
from planner.fit.memory import weights_gib
from workloads.engine.commands import arguments
from workloads.engine.spec import Serving, Spec

FORMS = ("dual-container", "paired", "single")
SPANNING = ("engine", "ray")
TASKS = ("embed", "generate", "image")


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
    """Returns the checked plan of a model.

    Raises:
        ValueError: An argument is out of range or contradicts another or the hardware.
    """
    form = _form(args, rungs)
    task = _one_of("task", args.get("task", "generate"), TASKS)
    if (problem := refused(wanted_of(args), rungs)) is not None:
        raise ValueError(": ".join(problem))
    nodes = _nodes(args, form, rungs)
    live = _live(args, form)
    size_gib = weights_gib(float(args["parameters_billion"]), float(args.get("weight_bits", 16)))
    role = _role(args, form, task, rungs)
    check_rungs(args, task, rungs)
    served = args.get("served_name", args["model"])
    names = (served, *sorted(args.get("adapters", {})))
    spanning = _spanning(args, nodes)
    if live is not None and spanning:
        raise ValueError("live_adapters: must be left out where a replica has several hosts")
    files = _files(args, nodes, size_gib, live)
    return ModelPlan(
        files=files,
        form=form,
        model=args["model"],
        namespace=args["namespace"],
        nodes=nodes,
        pod=Pod(
            environment=_sampling(args),
            longest_request_seconds=within(
                "longest_request_seconds", args.get("longest_request_seconds", 300), 1, 3600
            ),
            live=live,
            model=args["model"],
            names=names,
            role=role,
            service_account=args["service_account"],
        ),
        replicas=_replicas(args, form, list(nodes)),
        served_names=names,
        serving={
            kind: serving_of(
                args, nodes[kind], files[kind], served, task, spanning.get(kind), live, size_gib
            )
            for kind in nodes
        },
        spanning=spanning,
    )


def _files(
    args: Mapping[str, Any], kinds: Iterable[str], size_gib: float, live: LiveAdapters | None
) -> dict[str, Storage]:
    """Returns where a model's files come from, by kind of hardware."""
    weights = bucket_path(args["weights"], "weights")
    adapters = {
        name: bucket_path(uri, f"adapters.{name}")
        for name, uri in sorted(args.get("adapters", {}).items())
    }
    files = {
        kind: storage(
            kind,
            args["model"],
            weights,
            adapters,
            cache_bucket=args.get("cache_bucket"),
            claim=args.get("weights_claim"),
            draft=draft_of(args),
            engine=args.get("engine", "vllm"),
            is_streamed=is_streamed(args, kind),
            weights_gib=size_gib,
        )
        for kind in kinds
    }
    return files if live is None else {kind: with_live(at, live) for kind, at in files.items()}


def _live(args: Mapping[str, Any], form: str) -> LiveAdapters | None:
    given: Mapping[str, Any] | None = args.get("live_adapters")
    if given is None:
        return None
    if form == "dual-container":
        raise ValueError("live_adapters: must be left out in the form 'dual-container'")
    if args.get("role") is not None:
        raise ValueError("live_adapters: must be left out with prefill and decode apart")
    rank = int(given.get("max_rank", 16))
    if rank not in RANKS:
        raise ValueError(
            f"live_adapters.max_rank: must be one of {', '.join(map(str, RANKS))}, got {rank}"
        )
    return LiveAdapters(
        max_rank=rank,
        slots=within("live_adapters.slots", given.get("slots", 8), 1, 64),
        source=bucket_path(given["source"], "live_adapters.source"),
    )


def _form(args: Mapping[str, Any], rungs: list[Rung]) -> str:
    kinds = sorted({rung.kind for rung in rungs})
    default = "paired" if len(kinds) == 2 else "single"
    form = _one_of("form", args.get("form", default), FORMS)
    if form == "single" and len(kinds) == 2:
        raise ValueError(
            "form: must be 'paired' or 'dual-container' with TPU and GPU rungs, got 'single'"
        )
    if form == "dual-container" and len(kinds) != 2:
        raise ValueError(f"form: must have TPU and GPU rungs for 'dual-container', got {kinds[0]}")
    return form


def _role(args: Mapping[str, Any], form: str, task: str, rungs: list[Rung]) -> str | None:
    role = args.get("role")
    if role is None:
        return None
    _one_of("role", role, ROLES)
    if form != "single":
        raise ValueError(f"role: must be left out in form {form!r}, got {role!r}")
    if task != "generate":
        raise ValueError(f"role: must be left out for task {task!r}, got {role!r}")
    for rung in rungs:
        if (reason := unfit(rung)) is not None:
            raise ValueError(f"role: must have rungs that move KV cache; {rung.label} {reason}")
    if len({rung.accelerator for rung in rungs}) > 1:
        raise ValueError(f"role: must have rungs of one accelerator, got {role!r} with several")
    return role


def _nodes(args: Mapping[str, Any], form: str, rungs: list[Rung]) -> dict[str, Hardware]:
    classes: Mapping[str, str] = args["compute_classes"]
    nodes: dict[str, Hardware] = {}
    for kind in ("tpu", "gpu"):
        if not any(rung.kind == kind for rung in rungs):
            continue
        key = "any" if form == "dual-container" else kind
        if key not in classes:
            raise ValueError(f"compute_classes: must have {key!r}, got {sorted(classes)}")
        nodes[kind] = hardware(kind, classes[key], rungs)
        if form == "dual-container" and nodes[kind].is_group:
            rung = nodes[kind].rungs[0]
            raise ValueError(
                f"rungs: must fit one node in this form, got {rung.label} of {rung.hosts} nodes"
            )
    return nodes


def _spanning(args: Mapping[str, Any], nodes: dict[str, Hardware]) -> dict[str, str]:
    """Returns how each group spans its hosts.

    On TPU that is Ray (tpu-inference, TPU_MULTIHOST_BACKEND). On GPU vLLM's own processes do it
    without Ray (docs.vllm.ai deployment/frameworks/lws).
    """
    given = args.get("spanning")
    groups = [kind for kind, node in nodes.items() if node.is_group]
    if given is None:
        return {kind: "ray" if kind == "tpu" else "engine" for kind in groups}
    _one_of("spanning", given, SPANNING)
    if not groups:
        raise ValueError(f"spanning: must be left out where a replica has one host, got {given!r}")
    if given == "engine" and "tpu" in groups:
        raise ValueError("spanning: must be 'ray' on TPU, got 'engine'")
    return dict.fromkeys(groups, given)


def _replicas(args: Mapping[str, Any], form: str, kinds: list[str]) -> dict[str, int]:
    count = within("replicas", args["replicas"], 0, 1000)
    if form == "dual-container":
        return {"any": count}
    if len(kinds) == 1:
        return {kinds[0]: count}
    standby = within("standby_replicas", args.get("standby_replicas", 1), 0, 1000)
    # From zero the autoscaler starts only what it brought to zero itself (its condition
    # ScaledToZero): a Deployment that begins at zero would stay there.
    return {"tpu": count, "gpu": max(1, standby)}


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{field}: must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _sampling(args: Mapping[str, Any]) -> dict[str, str]:
    """Returns the environment of engines that send spans; nothing where they send none."""
    percent = args.get("trace_percent")
    if percent is None:
        return {}
    if not 0 <= float(percent) <= 100:
        raise ValueError(f"trace_percent: must be 0 to 100, got {percent}")
    return sampling_environment(str(args["model"]), float(percent))
