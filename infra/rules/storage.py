"""Rules about storage: limits of Cloud Storage, zones that the stack uses, and archives."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from gke_inference.catalogue.files.buckets import MINIMUM_DAYS, WORDS, key_location, place_of
from gke_inference.catalogue.input_error import Bare, InputError
from infra.plan.storage import STANDARD_CLASS, archive_steps, mounts_model_bucket
from infra.rules.folders import check_folders
from infra.stack import Archive, Layer, PersonalImages, Platform
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


def check_archives(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's archives."""
    for name, archive in platform.storage.archives.items():
        where = join("storage", "archives", name)
        if platform.layer is not Layer.ALL:  # a platform has no streams that write to it
            yield InputError(where, f"must not be set when layer is {platform.layer.value}")
        yield from _check_place(where, archive)
        yield from _check_ages(where, archive)
        if 0 < archive.soft_delete_days < _SHORTEST_SOFT_DELETE_DAYS:
            path = join(where, "soft_delete_days")
            yield InputError(path, "must be 0 or 7 to 90", archive.soft_delete_days)
    for name, stream in platform.streams.items():
        wanted = stream.results.archive
        if wanted is not None and wanted not in platform.storage.archives:
            known = ", ".join(platform.storage.archives) or "none"
            rule = f"must be one of 'storage.archives' ({known})"
            yield InputError(join("streams", name, "results", "archive"), rule, wanted)


def _check_place(where: str, archive: Archive) -> Iterator[InputError]:
    place = place_of(archive.location)
    if place is None:
        yield InputError(join(where, "location"), f"must be {WORDS}", archive.location)
        return
    if archive.turbo and place.kind != "dual-region":
        rule = f"must be false: {archive.location} is a {place.kind}, not a dual-region"
        yield InputError(join(where, "turbo"), rule, archive.turbo)
    if archive.kms_key is not None:
        location = archive.kms_key.split("/")[3]
        wanted = key_location(place)
        if location != wanted:
            rule = f"must be in {wanted}, for a bucket in {archive.location}"
            yield InputError(join(where, "kms_key"), rule, archive.kms_key)


def _check_ages(where: str, archive: Archive) -> Iterator[InputError]:
    yield from check_classes(where, archive, "delete_after_days", archive.delete_after_days)
    delete = archive.delete_after_days
    if delete is None or archive.retention_days is None:
        return
    if delete < archive.retention_days:
        rule = f"must be at least retention_days ({archive.retention_days})"
        yield InputError(join(where, "delete_after_days"), rule, Bare(str(delete)))


def check_classes(
    where: str, archive: Archive | PersonalImages, field: str, delete: int | None
) -> Iterator[InputError]:
    """Yield the problems of the ages at which objects move to colder classes and are deleted.

    Args:
        where: Path of the settings.
        archive: The settings.
        field: Field of the age at which objects are deleted.
        delete: That age in days; None: they are kept.
    """
    found = archive_steps(archive)
    for (_, before), (cold, age) in pairwise(found):
        if age <= before:
            path = join(where, f"{cold}_after_days")
            yield InputError(path, f"must be above {before}, the age of the class before it", age)
    if delete is None:
        return
    last, age = found[-1]
    least = max(age + 1, MINIMUM_DAYS[last] if last != STANDARD_CLASS else 1)
    if delete < least:
        note = "" if last == STANDARD_CLASS else f": {last} is billed for {MINIMUM_DAYS[last]} days"
        yield InputError(join(where, field), f"must be at least {least}", delete, note)
