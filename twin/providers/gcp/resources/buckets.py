"""Buckets: locations, classes and retention that Google would reject (rule cloud.buckets)."""

from typing import Final

from gke_inference.catalogue.files.buckets import (
    DUAL_REGIONS,
    MINIMUM_DAYS,
    MULTI_REGIONS,
    place_of,
)
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.regions import is_region

_CLASSES: Final = ("STANDARD", *(name.upper() for name in MINIMUM_DAYS))
_SET_CLASS: Final = "SetStorageClass"
_LONGEST_RETENTION_SECONDS: Final = 3_155_760_000
_PAIR: Final = 2


def check_bucket(values: Json) -> None:
    """Reject a bucket that Google would reject.

    Raises:
        CloudError: the first error.
    """
    location = str(values.get("location")).lower()
    regions = [str(one).lower() for one in _regions(values)]
    if not is_region(location) and location not in (*MULTI_REGIONS, *DUAL_REGIONS):
        raise _refused(f"The specified location constraint is not valid: {location.upper()}.")
    is_dual = location in DUAL_REGIONS
    if regions:
        place = place_of("+".join(regions)) if len(regions) == _PAIR else None
        if place is None or place.location != location or not all(map(is_region, regions)):
            text = f"two regions of {location.upper()}, got {', '.join(regions).upper()}"
            raise _refused(f"customPlacementConfig.dataLocations must be {text}.")
        is_dual = True
    rpo = values.get("rpo")
    if rpo == "ASYNC_TURBO" and not is_dual:
        raise _refused(f"rpo ASYNC_TURBO needs a dual-region, got {location.upper()}.")
    if rpo is not None and is_region(location):
        raise _refused(f"rpo must not be set in a region, got {rpo}.")
    _check_lifecycle(values)
    _check_retention(values)


def _regions(values: Json) -> list[object]:
    return list(as_list(get_path(values, "customPlacementConfig.dataLocations")) or [])


def _check_lifecycle(values: Json) -> None:
    for rule in as_list(values.get("lifecycleRules")) or []:
        found = as_object(rule) or {}
        kind = get_path(found, "action.type")
        named = get_path(found, "action.storageClass")
        if kind == _SET_CLASS and named not in _CLASSES:
            raise _refused(f"lifecycle: {named} must be one of {', '.join(_CLASSES)}.")
        if kind != _SET_CLASS and named:
            raise _refused(f"lifecycle: {kind} must have no storageClass, got {named}.")


def _check_retention(values: Json) -> None:
    period = get_path(values, "retentionPolicy.retentionPeriod")
    if period is None:
        return
    if not 0 < int(period) <= _LONGEST_RETENTION_SECONDS:
        text = f"1 to {_LONGEST_RETENTION_SECONDS} seconds, got {period}"
        raise _refused(f"retentionPolicy.retentionPeriod must be {text}.")


def _refused(text: str) -> CloudError:
    return CloudError(400, text, "invalid")
