"""Updates in place that re-create pods or nodes, or remove nodes."""

from collections.abc import Mapping
from typing import Any, cast

from policies.framework.reading import CLUSTER, NODE_POOL, at, pods
from policies.framework.resources import Resource

Inputs = Mapping[str, Any]

_IN_PLACE_NODE_CONFIG = frozenset(
    ["labels", "resourceLabels", "resourceManagerTags", "tags", "taints"]
)
"""Parts of a pool's `nodeConfig` that GKE changes on running nodes, by
https://cloud.google.com/kubernetes-engine/docs/how-to/update-existing-nodepools. All others make
the nodes again, with the pool's upgrade strategy, by
https://cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters; of those that neither
document names this is assumed, as the safe side."""
_CLUSTER_WIDE = (
    "addonsConfig.dnsCacheConfig",
    "enableIntranodeVisibility",
    "workloadIdentityConfig",
)
"""Settings of a cluster that re-create all its nodes (same document)."""
WORKLOADS = ("DaemonSet", "Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet")
"""Kinds of objects whose pods are meant to go on running."""


def restarts(kind: str, old: Inputs, new: Inputs) -> str:
    """Return why an update in place re-creates pods or nodes; empty if it does not."""
    if kind == NODE_POOL:
        return _of_pool(old, new)
    if kind == CLUSTER:
        return _of_cluster(old, new)
    if not kind.startswith("kubernetes:") or kind.rpartition(":")[2] not in WORKLOADS:
        return ""
    if _by_hand(new):
        return ""
    noun = kind.rpartition(":")[2]
    before, after = (
        [pod.template for pod in pods(Resource(kind, "", "", inputs))] for inputs in (old, new)
    )
    size = ("spec", "leaderWorkerTemplate", "size")
    if before != after or (noun == "LeaderWorkerSet" and at(old, *size) != at(new, *size)):
        return "the pod template changes"
    return ""


def _by_hand(inputs: Inputs) -> bool:
    """Return whether a new template takes effect only when the pods are deleted."""
    return at(inputs, "spec", "updateStrategy", "type") == "OnDelete"


def _at(inputs: Inputs, path: str) -> Any:
    return at(inputs, *path.split("."))


def _of_pool(old: Inputs, new: Inputs) -> str:
    before: Inputs = at(old, "nodeConfig") or {}
    after: Inputs = at(new, "nodeConfig") or {}
    changed = [
        f"nodeConfig.{key}"
        for key in sorted({*before, *after})
        if key not in _IN_PLACE_NODE_CONFIG and before.get(key) != after.get(key)
    ]
    if old.get("version") != new.get("version"):
        changed.append("version")
    said = _zones_gone(old, new)
    if changed:
        settings: Inputs = at(new, "upgradeSettings") or {}
        strategy = str(settings.get("strategy") or "SURGE")
        how = "blue-green" if strategy == "BLUE_GREEN" else _surge(settings)
        said = [f"nodes are re-created because of {', '.join(changed)} ({how})", *said]
    return "; ".join(said)


def _of_cluster(old: Inputs, new: Inputs) -> str:
    changed = [path for path in _CLUSTER_WIDE if _at(old, path) != _at(new, path)]
    said = [f"all nodes are re-created because of {', '.join(changed)}"] if changed else []
    return "; ".join([*said, *_zones_gone(old, new)])


def _zones_gone(old: Inputs, new: Inputs) -> list[str]:
    """Return which nodes are removed: those in zones that are no longer listed.

    A cluster's zones become those of all its pools, by
    https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.
    A list that is omitted or not yet known removes no zone.
    """
    before, after = old.get("nodeLocations"), new.get("nodeLocations")
    if not isinstance(before, list) or not isinstance(after, list):
        return []
    gone = sorted(set(cast("list[str]", before)) - set(cast("list[str]", after)))
    return [f"the nodes in {', '.join(gone)} are removed"] if gone else []


def _surge(settings: Inputs) -> str:
    """Return the surge settings for re-creating nodes; GKE's defaults are 1 and 0."""
    extra, out = settings.get("maxSurge", 1), settings.get("maxUnavailable", 0)
    return f"surge: {extra} more, {out} out at a time"
