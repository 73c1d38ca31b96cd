"""Every rung a model may land on has the memory for its weights."""

from collections.abc import Iterator

from gke_inference.accelerators import accelerator
from planner.memory import KV_SHARE, UTILISATION
from policies.invariants.engines import Engine, by_gke_type, engines, leads, resource_of, rungs_of
from policies.invariants.finding import Finding, Invariant, broken, unknown
from policies.invariants.models import size_gib
from policies.invariants.world import World

_TYPES = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator")


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        pod = server.container.pod
        resource = resource_of(server.container)
        if resource is None or not leads(pod):
            continue
        size = size_gib(server)
        if size is None:
            yield unknown(
                pod.obj,
                f"{server.container.path}.args",
                server.model,
                "the size of the model is not in its name",
                "name it as published, with its size",
            )
            continue
        yield from _judge(server, resource, size)


def _judge(server: Engine, resource: str, size: float) -> Iterator[Finding]:
    container, pod = server.container, server.container.pod
    said = next((label for key in _TYPES if (label := pod.node_label(key))), None)
    offers = (
        {said} if said else {rung.offer[0] for rung in rungs_of(pod) if rung.resource == resource}
    )
    if not offers:
        yield unknown(
            pod.obj,
            pod.at("spec.nodeSelector"),
            pod.compute_class,
            "which accelerator the pods get was not read",
            "check the ComputeClass, too",
        )
    chips = (container.amount(resource) or 0) * pod.hosts
    share = _number(container.line.flag("--gpu-memory-utilization", "--mem-fraction-static"))
    needed = size * (1 + KV_SHARE)
    for offer in sorted(str(each) for each in offers):
        name = by_gke_type().get(offer)
        if name is None:
            yield unknown(
                pod.obj,
                pod.at("spec.nodeSelector"),
                offer,
                "the accelerator is not catalogued",
                "add it to components/gke_inference/data/accelerators.yaml",
            )
            continue
        usable = accelerator(name).memory_gib * chips * (share or UTILISATION)
        if needed > usable:
            yield broken(
                pod.obj,
                f"{container.path}.resources",
                f"{chips} x {name}",
                f"{server.model} needs {needed:.0f} GiB ({size:.0f} GiB of weights and "
                f"{KV_SHARE:.0%} beside them), the rung has {usable:.0f} GiB",
                "take more chips, a larger one, or fewer bits a weight",
            )


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


INVARIANT = Invariant(
    name="rung-holds-model",
    holds="Weights, and a share beside them, fit into the accelerators of every rung.",
    source="this project's fit arithmetic: planner.memory",
    check=_check,
)
