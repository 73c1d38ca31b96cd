"""Classes do not end in preemptible nodes without a fallback."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.accelerators import resource_of
from policies.objects.compute_classes import rungs
from policies.objects.index import Obj
from policies.objects.world import World

SPOT_ONLY_REASON = "gke-inference/spot-only-because"
"""Annotation with the reason for a class of Spot alone."""
_ONLINE = ("Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet")


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        if not _is_spot_only(world, each.name) or each.at(
            "metadata", "annotations", SPOT_ONLY_REASON
        ):
            continue
        users = _users(world, each)
        if users:
            yield broken(
                each,
                "spec.priorities",
                "spot only",
                f"{', '.join(users)} run on it and have no other capacity: one preemption or "
                "stock-out stops them",
                "add an on-demand, reserved or flex-start rung, serve from a second class, or give "
                f"a reason for Spot alone: annotation {SPOT_ONLY_REASON}",
            )


def _users(world: World, chosen: Obj) -> list[str]:
    """Return the servers for which this class is the only capacity.

    Two Deployments behind one pool serve one model, so the other one's class counts as capacity if
    it has more than Spot.
    """
    found: list[str] = []
    for pod in world.pods:
        if pod.compute_class != chosen.name or pod.obj.kind not in _ONLINE:
            continue
        if not any(resource_of(container) for container in pod.containers):
            continue
        pools = [
            pool
            for pool in world.of("InferencePool", "Service")
            if pod in world.selected(pool.namespace, _selector(pool))
        ]
        others = {
            each.compute_class
            for pool in pools
            for each in world.selected(pool.namespace, _selector(pool))
        }
        if all(_is_spot_only(world, name) for name in others | {chosen.name}):
            found.append(pod.obj.name)
    return found


def _is_spot_only(world: World, name: str | None) -> bool:
    each = world.find("ComputeClass", "", name or "")
    listed = [] if each is None else rungs(each)
    return bool(listed) and all(rung.is_spot for rung in listed)


def _selector(pool: Obj) -> dict[str, dict[str, str]]:
    labels = pool.at("spec", "selector", "matchLabels")
    return {"matchLabels": labels if labels is not None else pool.at("spec", "selector") or {}}


RULE = Invariant(
    name="class-lasting-tail",
    description=(
        "Servers do not depend on spot capacity alone, unless their class has a reason for it."
    ),
    reference="gke-labs/kube-agents #907: no on-demand tail behind spot",
    check=_check,
)
