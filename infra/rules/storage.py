"""Rules about storage: limits of Cloud Storage, zones that the stack uses, and archives."""

from collections.abc import Iterator

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.files.buckets import key_location, place_of
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, repeated
from gke_inference.storage.rules import check_archive, check_soft_delete
from infra.plan import CapacityByRegion, RegionCapacity
from infra.plan.names import bucket_in, resolve_names
from infra.rules.folders import check_folders
from infra.stack import Archive, Disk, Layer, Model, Platform


def check_storage(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's storage."""
    yield from check_soft_delete("storage", platform.storage.soft_delete_days)
    node_zones = [zone for region in platform.regions.values() for zone in region.zones]
    places = {join("storage", "cache_zones"): platform.storage.cache_zones}
    for name, model in platform.models.items():
        if model.disk is not None:
            places[join("models", name, "disk", "zones")] = model.disk.zones
    for where, zones in places.items():
        for zone in dict.fromkeys(zones):
            if zone not in node_zones:
                message = f"must be among the zones of 'regions' ({', '.join(node_zones)})"
                yield InputError(where, message, zone)
        yield from repeated(where, zones, "a zone")
    if not platform.storage.cache_zones:
        for field in ("cache_days", "cache_on_write"):
            if field in platform.storage.model_fields_set:
                message = "must not be set without 'cache_zones'"
                yield InputError(f"storage.{field}", message, getattr(platform.storage, field))
    yield from _check_profile(platform)
    yield from _check_disks(platform, by_region, node_zones)
    yield from check_folders(platform)
    yield from check_archives(platform)


def _check_profile(platform: Platform) -> Iterator[InputError]:
    """Yield the problem of a profile for mounts that the stack does not have."""
    profile = platform.storage.fuse_profile
    if profile is None:
        return
    if platform.layer is not Layer.ALL:
        message = f"must not be set when layer is {platform.layer.value}"
        yield InputError("storage.fuse_profile", message, profile.value)
    elif not any(_mounts_model_bucket(platform, model) for model in platform.models.values()):
        message = "must not be set unless a model mounts the model bucket"
        note = ": servers that stream weights, or read them elsewhere, do not"
        yield InputError("storage.fuse_profile", message, profile.value, note)


def _mounts_model_bucket(platform: Platform, model: Model) -> bool:
    """Return whether servers of a model mount its region's model bucket, for weights or adapters.

    Servers that stream weights, or read them from a disk, mount the bucket for adapters only.
    """
    names = resolve_names(platform)
    paths = [model.weights, *([] if model.canary is None else [model.canary.weights])]
    own = {names.bucket("models", region) for region in platform.regions_of(model)}
    if not any(bucket_in(path) in {None, *own} for path in paths):
        return False
    hardware = engine(model.engine).hardware
    kinds = {rung.kind for rung in platform.capacity[model.capacity].rungs}
    is_read = any(kind in hardware and not hardware[kind].streamed for kind in kinds)
    return bool(model.adapters) or (model.disk is None and is_read)


def _check_disks(
    platform: Platform, by_region: CapacityByRegion, known: list[str]
) -> Iterator[InputError]:
    """Yield the disks that no replica can read: a node attaches disks of its own zone only."""
    for name, model in platform.models.items():
        if model.disk is None or any(zone not in known for zone in model.disk.zones):
            continue
        for region, settings in platform.regions_of(model).items():
            if not set(settings.zones) & set(model.disk.zones):
                message = f"must have a zone in {region}, where the model runs"
                yield InputError(join("models", name, "disk", "zones"), message, None)
                continue
            here = by_region.get(model.capacity, {}).get(region)
            if here is not None:
                for kind in here.classes:
                    yield from _check_rungs(name, model.disk, here, kind)


def _check_rungs(
    model: str, disk: Disk, capacity: RegionCapacity, kind: str
) -> Iterator[InputError]:
    """Yield the problem of a compute class without nodes in the zones of a disk."""
    rungs = capacity.rungs if kind == "any" else capacity.of_kind(kind)
    zones = sorted({zone for at in rungs for zone in capacity.zones[at]})
    if zones and not set(zones) & set(disk.zones):
        place = f"{capacity.name} on {kind}" if len(capacity.classes) > 1 else capacity.name
        rule = f"must have a zone of the rungs of {place} ({', '.join(zones)})"
        yield InputError(join("models", model, "disk", "zones"), rule, Bare(", ".join(disk.zones)))


def check_archives(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's archives."""
    for name, archive in platform.storage.archives.items():
        where = join("storage", "archives", name)
        if platform.layer is not Layer.ALL:  # a platform has no streams that write to it
            yield InputError(where, f"must not be set when layer is {platform.layer.value}")
        yield from check_archive(where, archive)
        yield from _check_key(where, archive)
    for name, stream in platform.streams.items():
        wanted = stream.results.archive
        if wanted is not None and wanted not in platform.storage.archives:
            names = ", ".join(platform.storage.archives) or "none"
            rule = f"must be one of 'storage.archives' ({names})"
            yield InputError(join("streams", name, "results", "archive"), rule, wanted)


def _check_key(where: str, archive: Archive) -> Iterator[InputError]:
    place = place_of(archive.location)
    if archive.kms_key is not None and place is not None:
        location = archive.kms_key.split("/")[3]
        wanted = key_location(place)
        if location != wanted:
            rule = f"must be in {wanted}, for a bucket in {archive.location}"
            yield InputError(join(where, "kms_key"), rule, archive.kms_key)
