"""Resolved storage: buckets, shared folders and archives."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.files.buckets import bucket_in
from gke_inference.catalogue.files.filestore import TIERS
from infra.plan.canary import canary_model
from infra.plan.names import Names, object_name
from infra.stack import (
    AdapterPlace,
    Archive,
    EngineSettings,
    Filestore,
    FuseProfile,
    Lustre,
    Model,
    Platform,
    Region,
    SharedPlace,
    SharedTier,
    Storage,
)

CANARY_PATH = "canary.settings"
"""Path of the settings of a canary below its model."""

CLAIM = "shared-folder"
"""Name of the claim in the models' namespace."""


BUCKET_CLAIM = "model-bucket"
"""Name of the claim of the model bucket, where GKE tunes its mounts."""


@dataclass(frozen=True)
class RegionStorage:
    """Files of the models of one region."""

    model_bucket: str
    """Name of the bucket of weights, created or existing."""
    cache_zones: tuple[str, ...]
    """Zones of the region with an Anywhere Cache of the model bucket."""
    fuse_profile: FuseProfile | None
    """Profile by which GKE tunes mounts of the model bucket."""
    filestore: Filestore | None
    """Its Filestore share, or None if no model has files on it."""
    lustre: Lustre | None
    """Its Lustre instance, or None if no model has files on it."""
    folder_location: str
    """Location of that share or instance: a zone, or the region for a share in all zones."""

    def is_tuned(self, weights: str) -> bool:
        """Return whether GKE tunes the mount from which a server reads weights."""
        return self.fuse_profile is not None and bucket_in(weights) == self.model_bucket


@dataclass(frozen=True)
class ArchivePlan:
    """A bucket for answers that are kept for long."""

    settings: Archive
    bucket: str
    """Global name of the bucket."""


@dataclass(frozen=True)
class ImageCachePlan:
    """The disk image with the engine images."""

    name: str
    project: str
    """Project of the image."""
    archive: str | None
    """Archive to create it from, or None if it exists."""


@dataclass(frozen=True)
class StoragePlan:
    """Storage that all regions share."""

    settings: Storage
    regions: Mapping[str, RegionStorage]
    archives: Mapping[str, ArchivePlan]
    """Archives by their name in the stack."""
    image_cache: ImageCachePlan | None

    @property
    def has_filestore(self) -> bool:
        """Whether a region has a Filestore share."""
        return any(region.filestore is not None for region in self.regions.values())

    @property
    def has_lustre(self) -> bool:
        """Whether a region has a Lustre instance."""
        return any(region.lustre is not None for region in self.regions.values())

    @property
    def services_range(self) -> str | None:
        """Range for private services access, if the stack makes it for Lustre."""
        ranges = [each.lustre.services_range for each in self.regions.values() if each.lustre]
        return ranges[0] if ranges else None


def resolve_storage(platform: Platform, names: Names) -> StoragePlan:
    """Return the storage of a stack."""
    storage = platform.storage
    cache = storage.image_cache
    return StoragePlan(
        settings=storage,
        regions={
            name: _in_region(storage, name, region, platform.models_in(name).values(), names)
            for name, region in platform.regions.items()
        },
        archives={
            name: ArchivePlan(archive, names.archive(name))
            for name, archive in storage.archives.items()
        },
        image_cache=None
        if cache is None
        else ImageCachePlan(cache.name, cache.project or platform.project, cache.archive),
    )


def _in_region(
    storage: Storage, name: str, region: Region, models: Iterable[Model], names: Names
) -> RegionStorage:
    filestore, lustre = shared_folders(storage, models)
    is_regional = filestore is not None and TIERS[filestore.tier.value].is_regional
    zone = region.zones[0] if region.folder_zone is None else region.folder_zone
    return RegionStorage(
        model_bucket=names.bucket("models", name),
        cache_zones=tuple(each for each in storage.cache_zones if each in region.zones),
        fuse_profile=storage.fuse_profile,
        filestore=filestore,
        lustre=lustre,
        folder_location=name if is_regional else zone,
    )


def shared_folders(
    storage: Storage, models: Iterable[Model]
) -> tuple[Filestore | None, Lustre | None]:
    """Return the shared folders of a region: those that one of its models has files on.

    Args:
        storage: Settings of the stack.
        models: The models that run in the region.
    """
    here = tuple(models)

    def is_used(adapters: AdapterPlace, tier: SharedPlace) -> bool:
        return any(is_on(model, adapters) or has_tier_on(model, tier) for model in here)

    has_filestore = is_used(AdapterPlace.FILESTORE, SharedPlace.FILESTORE)
    has_lustre = is_used(AdapterPlace.LUSTRE, SharedPlace.LUSTRE)
    return storage.filestore if has_filestore else None, storage.lustre if has_lustre else None


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


def path_of(name: str, model: Model) -> str:
    """Return the path of a model's live adapters in the folder."""
    return (
        "" if model.live_adapters is None else f"{object_name(name)}/{model.live_adapters.folder}"
    )
