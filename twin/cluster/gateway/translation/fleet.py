"""Pools of a fleet: what clusters export, and the shares of regions in requests. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gke_inference.catalogue.nearness import by_nearness
from twin.cluster.gateway.translation.model import Endpoint

IMPORT_GROUP: Final = "networking.gke.io"
IMPORT_KIND: Final = "GCPInferencePoolImport"
EXPORT: Final = "networking.gke.io/export"
"""Annotation that exports an InferencePool."""
_LEAST: Final = 0.05  # a full region keeps a share, from which its load is seen to fall
_PERCENT: Final = 100


@dataclass(frozen=True)
class Export:
    """A pool that a cluster exports."""

    region: str
    endpoint: Endpoint
    """Of the listener in front of the pool's picker."""
    ready: int
    """Ready replicas."""
    utilization: Mapping[str, float] = field(default_factory=dict[str, float])
    """Exported metrics, averaged over the replicas."""


Pool = tuple[str, str]
"""Namespace and name of a pool."""


@dataclass(frozen=True)
class Fleet:
    """A fleet, as the load balancer of one region sees it."""

    region: str
    addresses: Mapping[str, str]
    """Address of gateways over all clusters, by the region of a member."""
    exports: Mapping[Pool, tuple[Export, ...]]
    kept: Mapping[tuple[Pool, str], float]
    """Share of the requests that reach a region and stay in it, by pool and region."""


def imports(exports: Mapping[Pool, Sequence[Export]]) -> list[Pool]:
    """Return the pools that the config cluster imports: those that any cluster exports."""
    return sorted(pool for pool, found in exports.items() if found)


def next_kept(kept: float, utilization: float | None, target_percent: int) -> float:
    """Return the next share of requests that a region keeps (rule fleet.overflow).

    It falls in proportion to the excess over the target, and rises again with spare capacity.
    """
    if utilization is None:
        return 1.0
    target = target_percent / _PERCENT
    if utilization <= 0:
        return 1.0
    return min(max(kept * target / utilization, _LEAST), 1.0)


def shares(ordered: Sequence[str], kept: Mapping[str, float]) -> dict[str, int]:
    """Return the percentages of requests by region, of those with more than none.

    Each region keeps its share of what reaches it, nearest first. If something is left after the
    last one, every region is full, and the rest is divided in proportion.
    """
    left, found = 1.0, dict[str, float]()
    for region in ordered:
        found[region] = left * kept.get(region, 1.0)
        left -= found[region]
        if left <= 1e-9:
            break
    whole = sum(found.values())
    rounded = {region: round(_PERCENT * share / whole) for region, share in found.items()}
    return {region: share for region, share in rounded.items() if share}


def tiers(fleet: Fleet, pool: Pool) -> tuple[tuple[tuple[Endpoint, int], ...], ...]:
    """Return the endpoints of a pool with weights; each tier is used if those before it fail."""
    ready = {each.region: each for each in fleet.exports.get(pool, ()) if each.ready}
    ordered = by_nearness(fleet.region, ready)
    if not ordered:
        return ()
    kept = {region: fleet.kept.get((pool, region), 1.0) for region in ordered}
    weights = shares(ordered, kept)
    first = tuple((ready[region].endpoint, weight) for region, weight in weights.items())
    others = [region for region in ordered if region not in weights]
    return (first, *(((ready[region].endpoint, 1),) for region in others))
