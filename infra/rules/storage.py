"""Rules about storage: limits of Cloud Storage, and zones that the stack uses."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.input_error import InputError
from infra.plan.folders import mounts_model_bucket
from infra.rules.files.archives import check_archives
from infra.rules.files.folders import check_folders
from infra.stack import Layer, Platform
from infra.stack.problems import join

_SHORTEST_SOFT_DELETE_DAYS: Final = 7  # https://cloud.google.com/storage/docs/soft-delete


def check_storage(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's storage."""
    days = platform.storage.soft_delete_days
    if 0 < days < _SHORTEST_SOFT_DELETE_DAYS:
        yield InputError("storage.soft_delete_days", "must be 0 or 7 to 90", days)
    known = [zone for region in platform.regions.values() for zone in region.zones]
    places = {join("storage", "cache_zones"): platform.storage.cache_zones}
    for name, model in platform.models.items():
        if model.disk is not None:
            places[join("models", name, "disk", "zones")] = model.disk.zones
    for where, zones in places.items():
        for zone in zones:
            if zone not in known:
                message = f"must be among the zones of 'regions' ({', '.join(known)})"
                yield InputError(where, message, zone)
            elif zones.count(zone) > 1:
                yield InputError(where, "must not repeat a zone", zone, " twice")
                break
    if not platform.storage.cache_zones:
        for field in ("cache_days", "cache_on_write"):
            if field in platform.storage.model_fields_set:
                message = "must not be set without 'cache_zones'"
                yield InputError(f"storage.{field}", message, getattr(platform.storage, field))
    yield from _check_profile(platform)
    yield from _check_disks(platform, known)
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
    elif not any(mounts_model_bucket(platform, model) for model in platform.models.values()):
        message = "must not be set unless a model mounts the model bucket"
        note = ": servers that stream weights, or read them elsewhere, do not"
        yield InputError("storage.fuse_profile", message, profile.value, note)


def _check_disks(platform: Platform, known: list[str]) -> Iterator[InputError]:
    for name, model in platform.models.items():
        if model.disk is None or any(zone not in known for zone in model.disk.zones):
            continue
        for region, settings in platform.regions_of(model).items():
            if not set(settings.zones) & set(model.disk.zones):
                message = f"must have a zone in {region}, where the model runs"
                yield InputError(join("models", name, "disk", "zones"), message, None)
