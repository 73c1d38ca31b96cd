"""What buckets of weights, disks and images of a platform cost."""

from collections.abc import Iterable, Iterator

from infra.cost.nodes import Nodes
from infra.cost.parts import STORAGE, Count, Part, always, listed, part
from infra.plan import Plan, RegionPlan
from infra.plan.filestore import filestore_of
from infra.stack import Layer

_BYTES_PER_GIB = 2**30
_GIB = "GiB"


def storage_parts(plan: Plan, region: RegionPlan, nodes: Iterable[Nodes]) -> Iterator[Part]:
    """Yield what is stored in a region.

    Args:
        plan: Of the stack.
        region: Of the plan.
        nodes: All nodes of the region, for their boot disks.
    """
    name = region.name
    weights = always(round(_weights_gib(region), 1))
    yield listed(STORAGE, "weights in Cloud Storage", name, "gcs-standard", weights, unit=_GIB)
    has_shared = plan.platform.layer is not Layer.SERVING
    for zone in plan.platform.storage.cache_zones if has_shared else ():
        if zone.rpartition("-")[0] == name:
            yield part(STORAGE, "Anywhere Cache", zone, None, always(1))
    yield from _disks(plan, region)
    filestore = filestore_of(plan.platform, name)
    if filestore is not None:
        tier, size = filestore.tier.value, always(filestore.capacity_gib)
        yield listed(STORAGE, f"Filestore {tier}", name, f"filestore-{tier}", size, unit=_GIB)
    by_type: dict[str, Count] = {}
    for one in nodes:
        gib = one.count * one.disk_gib
        by_type[one.disk_type] = by_type.get(one.disk_type, always(0)) + gib
    for kind, gib in by_type.items():
        yield listed(STORAGE, f"boot disks {kind}", name, kind, gib, unit=_GIB)
    if plan.platform.images is not None and has_shared:
        yield part(STORAGE, "container images in Artifact Registry", name, None, always(1))


def project_parts(plan: Plan) -> Iterator[Part]:
    """Yield what is stored once for the whole project."""
    cache = plan.platform.storage.image_cache
    if cache is not None and cache.project in (None, plan.platform.project):
        yield part(STORAGE, f"disk image {cache.name}", "", None, always(1))


def _weights_gib(region: RegionPlan) -> float:
    """Return the size of all weights in a region's bucket, once where models share them."""
    sizes = {
        served.weights: served.settings.size.parameters_billion * served.settings.size.bits / 8
        for served in region.served
    }
    return sum(sizes.values()) * 1e9 / _BYTES_PER_GIB


def _disks(plan: Plan, region: RegionPlan) -> Iterator[Part]:
    """Yield the disks of weights, one in each of their zones, and the snapshots of the project."""
    for served in region.served:
        disk, zones = served.settings.disk, served.disk_zones
        if disk is None or not zones:
            continue
        of = f"of {served.name}"
        size = always(disk.size_gib * len(zones))
        rate = always(disk.throughput_mib_per_second * len(zones))
        item = "hyperdisk-ml"
        yield listed(STORAGE, f"Hyperdisk ML {of}", region.name, item, size, unit=_GIB)
        what, item = f"Hyperdisk ML throughput {of}", "hyperdisk-ml-throughput"
        yield listed(STORAGE, what, region.name, item, rate, unit="MiB/s")
        if served.is_first and _is_own(disk.snapshot, plan.platform.project):
            most = always(disk.size_gib)
            what = f"snapshot {of}, at most"
            yield listed(STORAGE, what, region.name, "snapshot", most, unit=_GIB)


def _is_own(snapshot: str, project: str) -> bool:
    """Return whether a snapshot is paid for by a project: a name alone is of the project."""
    return "/" not in snapshot or snapshot.startswith(f"projects/{project}/")
