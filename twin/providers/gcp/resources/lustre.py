"""Managed Lustre: Google's checks for instances, and their outputs (rule cloud.lustre)."""

import re
from typing import Final

from gke_inference.catalogue.files.lustre import NARROWEST_PREFIX, SIZES
from twin.providers.gcp.resources.identity import digest
from twin.wire.property_values import CloudError, Json, as_list, last_segment
from twin.world.regions import is_zone
from twin.world.store import Record, Store

INSTANCE: Final = "gcp:lustre/instance:Instance"
CONNECTION: Final = "gcp:servicenetworking/connection:Connection"
_RANGE: Final = "gcp:compute/globalAddress:GlobalAddress"
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_FILE_SYSTEM: Final = re.compile(r"[A-Za-z0-9]{1,8}")


def check_new(values: Json, store: Store) -> None:
    """Reject a new instance that Google would reject.

    Raises:
        CloudError: the first error.
    """
    name, file_system = str(values.get("instanceId")), str(values.get("filesystem"))
    if not _NAME.fullmatch(name):
        raise _refused("instanceId", "1 to 63 lowercase letters, digits and hyphens", name)
    if not _FILE_SYSTEM.fullmatch(file_system):
        raise _refused("filesystem", "one to eight letters and digits", file_system)
    if not is_zone(str(values.get("location"))):
        raise _refused("location", "a zone", values.get("location"))
    tier = str(values.get("perUnitStorageThroughput"))
    if tier not in map(str, SIZES):
        raise _refused("perUnitStorageThroughput", f"one of {', '.join(map(str, SIZES))}", tier)
    _check_capacity(values)
    _check_room(str(values.get("network")), store)


def check_change(old: Json, new: Json) -> None:
    """Reject a capacity between two steps, one that shrinks, or one beyond the range of its step.

    Raises:
        CloudError: the first error.
    """
    _check_capacity(new)
    before, after = int(old["capacityGib"]), int(new["capacityGib"])
    if after < before:
        raise _refused("capacityGib", f"at least {before}: capacity cannot decrease", after)
    sizes = SIZES[int(new["perUnitStorageThroughput"])]
    most = next(most for least, most, _ in sizes.ranges if least <= before <= most)
    if after > most:
        text = f"at most {most} for an instance that was created with {before}"
        raise _refused("capacityGib", text, after)


def outputs(values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    """Return the mount point of a new instance, and its state."""
    address = f"10.{int(digest(seed)[:2], 16)}.0.2"
    return {"mountPoint": f"{address}@tcp:/{values['filesystem']}", "state": "ACTIVE"}


def users(network: str, store: Store) -> list[Record]:
    """Return the instances that the peering of a network connects."""
    name = last_segment(network)
    return [
        each
        for each in store.find(INSTANCE)
        if last_segment(str(each.inputs.get("network"))) == name
    ]


def _check_capacity(values: Json) -> None:
    sizes = SIZES[int(values["perUnitStorageThroughput"])]
    asked = int(values["capacityGib"])
    if not sizes.allow(asked):
        raise _refused("capacityGib", sizes.words, asked)


def _check_room(network: str, store: Store) -> None:
    """Reject an instance for whose /23 no peering of the network has room."""
    name = last_segment(network)
    ranges = [
        last_segment(str(one))
        for each in store.find(CONNECTION)
        if last_segment(str(each.inputs.get("network"))) == name
        for one in as_list(each.inputs.get("reservedPeeringRanges")) or []
    ]
    if not ranges:
        text = f"network {name} has no private services access: create a connection to it first"
        raise CloudError(400, text, "failedPrecondition")
    prefixes = [
        int(each.inputs.get("prefixLength") or 32)
        for each in store.find(_RANGE)
        if each.name in ranges
    ]
    room = sum(2 ** (NARROWEST_PREFIX - each) for each in prefixes if each <= NARROWEST_PREFIX)
    if len(users(network, store)) >= room:
        text = f"no /{NARROWEST_PREFIX} is left in the allocated ranges of network {name}"
        raise CloudError(400, text, "failedPrecondition")


def _refused(field: str, wanted: str, got: object) -> CloudError:
    return CloudError(400, f"{field}: must be {wanted}, got {got}", "invalidArgument")
