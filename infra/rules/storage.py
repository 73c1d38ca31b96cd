"""Rules about storage: what Cloud Storage offers, and zones that have readers."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.filestore import TIERS
from gke_inference.catalogue.input_error import InputError
from infra.plan.filestore import has_filestore, is_on_filestore
from infra.stack import Layer, Platform
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
    yield from _check_filestore(platform)


def _check_disks(platform: Platform, known: list[str]) -> Iterator[InputError]:
    for name, model in platform.models.items():
        if model.disk is None or any(zone not in known for zone in model.disk.zones):
            continue
        for region, settings in platform.regions_of(model).items():
            if not set(settings.zones) & set(model.disk.zones):
                message = f"must have a zone in {region}, where the model runs"
                yield InputError(join("models", name, "disk", "zones"), message, None)


def _check_filestore(platform: Platform) -> Iterator[InputError]:
    filestore = platform.storage.filestore
    for name, model in platform.models.items():
        if not is_on_filestore(model):
            continue
        where = join("models", name, "live_adapters", "place")
        if platform.layer is not Layer.ALL:
            message = f"must be bucket where layer is {platform.layer.value}"
            yield InputError(where, message, "filestore")
        elif filestore is None:
            yield InputError(where, "needs 'storage.filestore'", "filestore", " without it")
    if filestore is None:
        return
    tier = TIERS[filestore.tier.value]
    if not tier.allows(filestore.capacity_gib):
        message = f"must be {tier.words} for tier {filestore.tier.value}"
        yield InputError("storage.filestore.capacity_gib", message, filestore.capacity_gib)
    if not has_filestore(platform):
        message = "must be left out where no model has live_adapters.place filestore"
        yield InputError("storage.filestore", message)
    network = platform.existing.network
    if network is not None and not network.startswith(f"projects/{platform.project}/"):
        # cloud.google.com/filestore/docs/shared-vpc: it takes private services access, which the
        # host project must have made
        message = "must be left out with a network of another project"
        yield InputError("storage.filestore", message, network)
