"""Regions with a shared folder, where its instance is, and the storage classes of archives."""

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.files.filestore import TIERS
from infra.plan.names import Names, bucket_in, object_name
from infra.plan.resolve import canary_model
from infra.plan.served import ServedModel
from infra.stack import (
    AdapterPlace,
    EngineSettings,
    Filestore,
    Lustre,
    Model,
    Platform,
    SharedPlace,
    SharedTier,
)

CANARY_PATH = "canary.settings"
"""Path of the settings of a canary below its model."""

CLAIM = "shared-folder"
"""Name of the claim in the models' namespace."""


BUCKET_CLAIM = "model-bucket"
"""Name of the claim of the model bucket, where GKE tunes its mounts."""


def is_tuned(platform: Platform, served: ServedModel) -> bool:
    """Return whether GKE tunes the mounts of the bucket with the weights of a served model."""
    bucket = Names(platform).bucket("models", served.region)
    return platform.storage.fuse_profile is not None and bucket_in(served.weights) == bucket


def mounts_model_bucket(platform: Platform, model: Model) -> bool:
    """Return whether servers of a model mount its region's model bucket, for weights or adapters.

    Servers that stream weights, or read them from a disk, mount the bucket for adapters only.
    """
    names = Names(platform)
    paths = [model.weights, *([] if model.canary is None else [model.canary.weights])]
    own = {names.bucket("models", region) for region in platform.regions_of(model)}
    if not any(bucket_in(path) in {None, *own} for path in paths):
        return False
    hardware = engine(model.engine).hardware
    kinds = {accelerator(rung.accelerator).kind for rung in platform.capacity[model.capacity].rungs}
    is_read = any(kind in hardware and not hardware[kind].streamed for kind in kinds)
    return bool(model.adapters) or (model.disk is None and is_read)


def is_on(model: Model, place: AdapterPlace) -> bool:
    """Return whether the live adapters of a model are in a place."""
    return model.live_adapters is not None and model.live_adapters.place is place


def is_on_folder(model: Model) -> bool:
    """Return whether the live adapters of a model are in the shared folder of its region."""
    live = model.live_adapters
    return live is not None and live.place is not AdapterPlace.BUCKET


def shared_tier(settings: EngineSettings | None) -> SharedTier | None:
    """Return the tier of KV cache in the shared folder in an engine's settings, or None."""
    offload = None if settings is None else settings.kv_offload
    return None if offload is None else offload.shared


def tiers_of(model: Model) -> dict[str, SharedTier]:
    """Return the shared tiers of a model and its canary, by the path of their settings.

    A canary without settings has those of its model, and a folder of its own.
    """
    canary = None if model.canary is None else canary_model(model, model.canary).settings
    found = {
        "settings": shared_tier(model.settings),
        CANARY_PATH: shared_tier(canary),
    }
    return {path: tier for path, tier in found.items() if tier is not None}


def has_tier_on(model: Model, place: SharedPlace) -> bool:
    """Return whether a model or its canary has KV cache in a place."""
    return any(tier.place is place for tier in tiers_of(model).values())


def filestore_of(platform: Platform, region: str) -> Filestore | None:
    """Return the Filestore settings of a region that has a model with files on it."""
    is_used = _uses(platform, region, AdapterPlace.FILESTORE, SharedPlace.FILESTORE)
    return platform.storage.filestore if is_used else None


def lustre_of(platform: Platform, region: str) -> Lustre | None:
    """Return the Lustre settings of a region that has a model with files on it."""
    is_used = _uses(platform, region, AdapterPlace.LUSTRE, SharedPlace.LUSTRE)
    return platform.storage.lustre if is_used else None


def has_folder(platform: Platform, region: str) -> bool:
    """Return whether a region has a shared folder."""
    return filestore_of(platform, region) is not None or lustre_of(platform, region) is not None


def has_filestore(platform: Platform) -> bool:
    """Return whether any region has a Filestore share."""
    return any(filestore_of(platform, region) is not None for region in platform.regions)


def lustre_regions(platform: Platform) -> list[str]:
    """Return the regions with a Lustre instance."""
    return [region for region in platform.regions if lustre_of(platform, region) is not None]


def services_range(platform: Platform) -> str | None:
    """Return the range for private services access, if the stack makes it."""
    lustre = platform.storage.lustre
    return lustre.services_range if lustre is not None and lustre_regions(platform) else None


def location_of(platform: Platform, region: str, filestore: Filestore) -> str:
    """Return the location of a Filestore instance: its region, or one zone of it."""
    if TIERS[filestore.tier.value].is_regional:
        return region
    return zone_of(platform, region)


def zone_of(platform: Platform, region: str) -> str:
    """Return the zone of a region's shared folder: the one that is set, or the first."""
    settings = platform.regions[region]
    return settings.zones[0] if settings.folder_zone is None else settings.folder_zone


def path_of(name: str, model: Model) -> str:
    """Return the path of a model's live adapters in the folder."""
    return (
        "" if model.live_adapters is None else f"{object_name(name)}/{model.live_adapters.folder}"
    )


def _uses(platform: Platform, region: str, adapters: AdapterPlace, tier: SharedPlace) -> bool:
    models = (platform.models[name] for name in platform.models_in(region))
    return any(is_on(model, adapters) or has_tier_on(model, tier) for model in models)
