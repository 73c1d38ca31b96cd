"""Costs of storage: buckets and their archives, disks, file systems and container images."""

from collections.abc import Iterable, Iterator, Mapping

from gke_inference.catalogue.files.buckets import place_of
from gke_inference.storage.rules import class_steps
from infra.estimate.cost_parts import STORAGE, Nodes, Part, listed, part, unmeasured
from infra.estimate.usage import Usage
from infra.plan import RegionPlan
from infra.plan.cloud_run import RunService
from infra.plan.storage import ArchivePlan, StoragePlan
from infra.stack import Images, Size
from planner.amount import Count, always

_BYTES_PER_GIB = 2**30
_GIB = "GiB"
_MONTH_DAYS = 365 / 12
_YEAR_DAYS = 365


def storage_parts(
    region: RegionPlan,
    runs: Iterable[RunService],
    nodes: Iterable[Nodes],
    usage: Usage,
    images: Images | None,
    *,
    has_buckets: bool,
) -> Iterator[Part]:
    """Yield the storage costs of a region.

    Args:
        region: A region of the plan.
        runs: Its models on Cloud Run.
        nodes: All nodes of the region, for their boot disks.
        usage: Usage assumptions.
        images: Settings of the repositories that the stack creates.
        has_buckets: Whether the stack creates the buckets of weights.
    """
    name = region.name
    weights = always(round(_weights_gib(region, runs), 1))
    yield listed(STORAGE, "weights in Cloud Storage", name, "gcs-standard", weights, unit=_GIB)
    for zone in region.storage.cache_zones if has_buckets else ():
        # what is read in the zone, which is at most all weights of the region
        what = f"Anywhere Cache {zone}, at most"
        yield listed(STORAGE, what, name, "anywhere-cache", weights, unit=_GIB)
    yield from _disks(region)
    filestore = region.storage.filestore
    if filestore is not None:
        tier, size = filestore.tier.value, always(filestore.capacity_gib)
        yield listed(STORAGE, f"Filestore {tier}", name, f"filestore-{tier}", size, unit=_GIB)
    lustre = region.storage.lustre
    if lustre is not None:
        tier, size = f"lustre-{lustre.mb_per_second_per_tib}", always(lustre.capacity_gib)
        what = f"Managed Lustre {lustre.mb_per_second_per_tib} MB/s per TiB"
        yield listed(STORAGE, what, name, tier, size, unit=_GIB)
    by_type: dict[str, Count] = {}
    for one in nodes:
        gib = one.count * one.disk_gib
        by_type[one.disk_type] = by_type.get(one.disk_type, always(0)) + gib
    for kind, gib in by_type.items():
        yield listed(STORAGE, f"boot disks {kind}", name, kind, gib, unit=_GIB)
    if images is not None:
        what, size = "container images in Artifact Registry", usage.images_gib
        if size is not None:
            yield listed(STORAGE, what, name, "artifact-registry", always(size), unit=_GIB)
            return
        yield unmeasured(STORAGE, what, name, "--images-gib")
        if images.pull_through is not None:
            what = "images pulled through Artifact Registry"
            yield unmeasured(STORAGE, what, name, "--images-gib")


def project_parts(storage: StoragePlan, project: str) -> Iterator[Part]:
    """Yield the project-wide storage costs."""
    cache = storage.image_cache
    if cache is not None and cache.project == project:
        yield part(STORAGE, f"disk image {cache.name}", "", None, always(1))
    yield from _archives(storage.archives)


def _archives(archives: Mapping[str, ArchivePlan]) -> Iterator[Part]:
    """Yield the costs of archives once they have been filled for a year, or until deletion.

    Operations, retrieval and replication are left out, and so is data whose amount nobody stated.
    """
    for name, each in archives.items():
        archive = each.settings
        place = place_of(archive.location)
        what, gib = f"archive {name}", archive.expected_gib_per_month
        if place is None or gib is None:
            yield part(STORAGE, what, "", None, always(1), unit="buckets")
            continue
        kind = {"dual-region": "dual-", "multi-region": "multi-"}.get(place.kind, "")
        found = class_steps(archive)
        last = archive.delete_after_days or max(_YEAR_DAYS, found[-1][1])
        ends = [*(age for _, age in found[1:]), last]
        for (cold, start), end in zip(found, ends, strict=True):
            size = always(round(gib * max(0, min(end, last) - start) / _MONTH_DAYS, 1))
            item = f"gcs-{kind}{cold}"
            for region in place.regions or (place.location,):
                yield listed(STORAGE, f"{what}: {cold}", region, item, size, unit=_GIB)


def _weights_gib(region: RegionPlan, runs: Iterable[RunService]) -> float:
    """Return the size of all weights in a region's bucket. Shared weights count once."""
    sizes: dict[str, Size] = {each.weights: each.settings.size for each in runs}
    for served in region.served:
        sizes[served.weights] = served.settings.size
        for further in served.settings.further_models.values():
            sizes[region.names.weights(further.weights, served.region)] = further.size
    return sum(size.parameters_billion * size.bits / 8 for size in sizes.values()) * (
        1e9 / _BYTES_PER_GIB
    )


def _disks(region: RegionPlan) -> Iterator[Part]:
    """Yield the weight disks, one per zone, and the project's snapshots."""
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
        if served.is_first and _is_own(disk.snapshot, region.project.id):
            most = always(disk.size_gib)
            what = f"snapshot {of}, at most"
            yield listed(STORAGE, what, region.name, "snapshot", most, unit=_GIB)


def _is_own(snapshot: str, project: str) -> bool:
    """Return whether a project pays for a snapshot. A name without a path is the project's."""
    return "/" not in snapshot or snapshot.startswith(f"projects/{project}/")
