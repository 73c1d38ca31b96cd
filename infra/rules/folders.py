"""Rules about shared folders: capacity of the instance, and the network that reaches it."""

import math
from collections.abc import Iterator, Mapping

from gke_inference.catalogue.files.filestore import TIERS
from gke_inference.catalogue.files.lustre import NARROWEST_PREFIX
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.cluster.rules import network_of
from gke_inference.intent.kv_offload import SHARED_SHARE
from gke_inference.storage.rules import check_filestore, check_lustre
from infra.plan.storage import (
    CANARY_PATH,
    has_tier_on,
    is_on,
    shared_folders,
    shared_tier,
    tiers_of,
)
from infra.stack import AdapterPlace, Filestore, Layer, Lustre, Platform, SharedPlace

_CAPACITY = "storage.lustre.capacity_gib"
_RANGE = "storage.lustre.services_range"


def check_folders(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's shared folders."""
    filestore, lustre = platform.storage.filestore, platform.storage.lustre
    folders = _folders(platform)
    yield from _check_places(platform, AdapterPlace.FILESTORE, is_set=filestore is not None)
    yield from _check_places(platform, AdapterPlace.LUSTRE, is_set=lustre is not None)
    yield from _check_tiers(platform)
    yield from _check_zones(platform, folders)
    if filestore is not None:
        where = "storage.filestore.capacity_gib"
        yield from check_filestore(where, filestore.tier, filestore.capacity_gib)
        if not any(share for share, _ in folders.values()):
            yield _unused(AdapterPlace.FILESTORE)
        # cloud.google.com/filestore/docs/shared-vpc
        yield from _check_network(platform, AdapterPlace.FILESTORE)
    if lustre is not None:
        if filestore is not None:
            message = "must not be set with 'storage.filestore'"
            yield InputError("storage.lustre", message + ": a region has one shared folder")
        instances = sum(instance is not None for _, instance in folders.values())
        yield from _check_lustre(platform, lustre, instances)


def _folders(platform: Platform) -> dict[str, tuple[Filestore | None, Lustre | None]]:
    """Return the shared folders of each region."""
    return {
        name: shared_folders(platform.storage, platform.models_in(name).values())
        for name in platform.regions
    }


def _check_places(platform: Platform, place: AdapterPlace, *, is_set: bool) -> Iterator[InputError]:
    for name, model in platform.models.items():
        if not is_on(model, place):
            continue
        where = join("models", name, "live_adapters", "place")
        if platform.layer is not Layer.ALL:
            message = f"must be bucket when layer is {platform.layer.value}"
            yield InputError(where, message, place.value)
        elif not is_set:
            yield InputError(where, f"needs 'storage.{place.value}'", place.value, " without it")


def _check_zones(
    platform: Platform, folders: Mapping[str, tuple[Filestore | None, Lustre | None]]
) -> Iterator[InputError]:
    for name, region in platform.regions.items():
        where, zone = join("regions", name, "folder_zone"), region.folder_zone
        if zone is None:
            continue
        filestore, lustre = folders[name]
        if filestore is None and lustre is None:
            message = "must not be set in a region without a Filestore or Lustre instance"
            yield InputError(where, message, zone)
        elif filestore is not None and TIERS[filestore.tier.value].is_regional:
            message = f"must not be set with tier {filestore.tier.value}, which is in all zones"
            yield InputError(where, message, zone)
        elif zone not in region.zones:
            message = f"must be one of the zones of {name} ({', '.join(region.zones)})"
            yield InputError(where, message, zone)


def _check_tiers(platform: Platform) -> Iterator[InputError]:
    """Yield problems of KV cache in the folder: all tiers together must fit on the instance."""
    storage = platform.storage
    instances = {SharedPlace.FILESTORE: storage.filestore, SharedPlace.LUSTRE: storage.lustre}
    total = 0
    for name, model in platform.models.items():
        for path, tier in tiers_of(model).items():
            where = join("models", name, path, "kv_offload", "shared")
            is_inherited = path == CANARY_PATH and tier is shared_tier(model.settings)
            if platform.layer is not Layer.ALL:
                message = f"must not be set when layer is {platform.layer.value}"
                if not is_inherited:
                    yield InputError(where, message)
                continue
            instance = instances[tier.place]
            if instance is None:
                place = tier.place.value
                if not is_inherited:
                    message = f"needs 'storage.{place}'"
                    yield InputError(join(where, "place"), message, place, " without it")
                continue
            total += tier.gib
            most = int(instance.capacity_gib * SHARED_SHARE)
            if total > most:
                message = f"must be at most {most} with all others on the share"
                note = f": {total} together, on {instance.capacity_gib} GiB"
                if is_inherited:
                    note = f"{note}; the canary has the model's settings and a folder of its own"
                yield InputError(join(where, "gib"), message, tier.gib, note)


def _check_lustre(platform: Platform, lustre: Lustre, instances: int) -> Iterator[InputError]:
    yield from check_lustre(_CAPACITY, lustre.mb_per_second_per_tib, lustre.capacity_gib)
    if not instances:
        yield _unused(AdapterPlace.LUSTRE)
    yield from _check_lustre_nodes(platform)
    yield from _check_network(platform, AdapterPlace.LUSTRE)
    if platform.existing.network is not None:
        if lustre.services_range is not None:
            message = "must not be set with existing.network"
            note = ": that network must have private services access"
            yield InputError(_RANGE, message, lustre.services_range, note)
    elif lustre.services_range is None:
        yield InputError(_RANGE, "is required: the range that instances take addresses from")
    else:
        yield from _check_range(lustre.services_range, max(1, instances))


def _check_lustre_nodes(platform: Platform) -> Iterator[InputError]:
    """Yield models that mount Lustre on machines without GPUs.

    With secure boot, which all nodes have, only those of GPU machine types are supported
    (Limitations in
    cloud.google.com/managed-lustre/docs/connect-from-kubernetes-engine-existing-instance).
    """
    for name, model in platform.models.items():
        if is_on(model, AdapterPlace.LUSTRE):
            field = join("live_adapters", "place")
        elif has_tier_on(model, SharedPlace.LUSTRE):
            field = join("settings", "kv_offload", "shared", "place")
        else:
            continue
        capacity = platform.capacity.get(model.capacity)
        rungs = () if capacity is None else capacity.rungs
        others = [each for each in rungs if each.is_tpu]
        if others:
            rule = (
                "must be filestore where a rung is a TPU: its nodes have secure boot, with which"
                " Lustre is supported on GPU machines only"
            )
            yield InputError(join("models", name, field), rule, "lustre")


def _check_range(cidr: str, count: int) -> Iterator[InputError]:
    network = network_of(_RANGE, cidr)
    if isinstance(network, InputError):
        yield network
        return
    narrowest = NARROWEST_PREFIX - math.ceil(math.log2(count))
    if network.prefixlen > narrowest:
        message = (
            f"must be /{narrowest} or larger, a /{NARROWEST_PREFIX} for each instance ({count})"
        )
        yield InputError(_RANGE, message, cidr)


def _check_network(platform: Platform, place: AdapterPlace) -> Iterator[InputError]:
    """Yield a network of another project.

    It takes private services access, which the host project must have made.
    """
    network = platform.existing.network
    if network is not None and not network.startswith(f"projects/{platform.project}/"):
        message = "is not supported with a network of another project"
        yield InputError(f"storage.{place.value}", message, network)


def _unused(place: AdapterPlace) -> InputError:
    rule = "must not be set unless a model has live adapters or KV cache on it"
    return InputError(f"storage.{place.value}", rule)
