"""Which regions have a folder on Filestore, and where its instance is."""

from gke_inference.catalogue.filestore import TIERS
from infra.plan.names import object_name
from infra.stack import AdapterPlace, Filestore, Model, Platform

CLAIM = "shared-folder"
"""Name of the claim in the models' namespace."""


def is_on_filestore(model: Model) -> bool:
    """Return whether the live adapters of a model are on Filestore."""
    live = model.live_adapters
    return live is not None and live.place is AdapterPlace.FILESTORE


def filestore_of(platform: Platform, region: str) -> Filestore | None:
    """Return the folder of a region, where a model of it has its live adapters there."""
    models = (platform.models[name] for name in platform.models_in(region))
    return platform.storage.filestore if any(map(is_on_filestore, models)) else None


def has_filestore(platform: Platform) -> bool:
    """Return whether any region has a folder on Filestore."""
    return any(filestore_of(platform, region) is not None for region in platform.regions)


def location_of(platform: Platform, region: str, filestore: Filestore) -> str:
    """Return the region of an instance, or its zone, which is the first of the region."""
    if TIERS[filestore.tier.value].is_regional:
        return region
    return platform.regions[region].zones[0]


def path_of(name: str, model: Model) -> str:
    """Return the path of a model's live adapters in the folder."""
    return (
        "" if model.live_adapters is None else f"{object_name(name)}/{model.live_adapters.folder}"
    )
