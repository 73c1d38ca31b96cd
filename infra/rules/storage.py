"""Rules about storage: what Cloud Storage offers, and zones that have readers."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.input_error import InputError
from infra.stack import Platform
from infra.stack.problems import join

_SHORTEST_SOFT_DELETE_DAYS: Final = 7  # https://cloud.google.com/storage/docs/soft-delete


def check_storage(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the storage of a platform."""
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
                yield InputError(where, "must name a zone once", zone, " twice")
                break
    yield from _check_disks(platform, known)


def _check_disks(platform: Platform, known: list[str]) -> Iterator[InputError]:
    for name, model in platform.models.items():
        if model.disk is None or any(zone not in known for zone in model.disk.zones):
            continue
        for region, settings in platform.regions_of(model).items():
            if not set(settings.zones) & set(model.disk.zones):
                message = f"must have a zone in {region}, where the model runs"
                yield InputError(join("models", name, "disk", "zones"), message, None)
