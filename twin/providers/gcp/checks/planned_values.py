"""Values that the provider sets in a plan (`plan_clears`, `plan_sets`, … of the data).

The functions of the provider's source are CustomizeDiff functions; their names stand in
`customize_diff` of the data. An unknown value counts as given.
"""

from collections.abc import Callable
from typing import Any

from twin.providers.gcp.checks.suppress import is_same_image
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import Json, as_list, as_object, get_path, is_unknown

_NETWORKS = "additionalNodeNetworkConfigs"
_PROFILE = "acceleratorNetworkProfile"
_ALL_WORKLOADS = ["gke://*"]


def as_planned(known: Resource, old: Json, new: Json) -> Json:
    """Return the inputs as the provider's plan changes them.

    Args:
        known: the resource type.
        old: current outputs; empty for a new resource.
        new: checked inputs; values can be unknown.
    """
    for plan in _PLANS.get(known.kind, ()):
        new = plan(old, new)
    return new


def unknown_until_applied(known: Resource, old: Json, new: Json) -> list[str]:
    """Return the top-level outputs that an update computes again (`plan_computed` of the data).

    Args:
        known: the resource type.
        old: current outputs.
        new: checked inputs.
    """
    find = _UNKNOWN.get(known.kind)
    return [] if find is None else find(old, new)


def _pool_networks(old: Json, new: Json) -> Json:
    """Clear additional networks that a node pool no longer names."""
    if not old:
        return new
    before = as_object(old.get("networkConfig")) or {}
    after = new.get("networkConfig")
    if is_unknown(after):
        return new
    given = as_object(after)
    wanted = before if given is None else given
    profile = wanted.get(_PROFILE) or ""
    named = None if given is None else given.get(_NETWORKS)
    is_taken_over = profile and profile == (before.get(_PROFILE) or "")
    if named or is_taken_over or not before.get(_NETWORKS):
        return new
    cleared: Json = {**(given or {}), _NETWORKS: []}
    if given is None and profile:
        cleared[_PROFILE] = profile
    return {**new, "networkConfig": cleared}


def _inline_pool_networks(old: Json, new: Json) -> Json:
    pools = [as_object(pool) or {} for pool in as_list(new.get("nodePools")) or []]
    if not old or not pools:
        return new
    before = [as_object(pool) or {} for pool in as_list(old.get("nodePools")) or []]
    rest: list[Json] = [{}] * len(pools)
    paired = zip([*before, *rest], pools, strict=False)
    return {**new, "nodePools": [_pool_networks(was, pool) for was, pool in paired]}


def _without_empty_accelerators(old: Json, new: Json) -> Json:
    """Leave out accelerators with count 0 if the others are those of the state."""
    path = "nodeConfig.guestAccelerators"
    before = [as_object(item) or {} for item in as_list(get_path(old, path)) or []]
    after = [as_object(item) or {} for item in as_list(get_path(new, path)) or []]
    kept = [item for item in after if item.get("count") != 0]
    if not old or len(kept) == len(after) or len(after) == len(before):
        return new
    if [_accelerator(item) for item in kept] != [_accelerator(item) for item in before]:
        return new
    config = as_object(new.get("nodeConfig")) or {}
    same = {**config, "guestAccelerators": before}
    return {**new, "nodeConfig": same}


def _accelerator(value: Json) -> Json:
    return {
        key: item
        for key, item in value.items()
        if item is not None and key not in ("gpuDriverInstallationConfig", "__defaults")
    }


def _autopilot(old: Json, new: Json) -> Json:
    if new.get("enableAutopilot") is not True or old.get("enableAutopilot") is True:
        return new
    return {**new, "enableIntranodeVisibility": True, "networkingMode": "VPC_NATIVE"}


def _privileged_admission(old: Json, new: Json) -> Json:
    key = "autopilotPrivilegedAdmissions"
    given = new.get(key)
    empty_again = given is None and bool(old.get(key))
    return {**new, key: list(_ALL_WORKLOADS)} if empty_again or given == [] else new


def _dropped_ranges(old: Json, new: Json) -> Json:
    key = "secondaryIpRanges"
    is_dropped = not new.get(key) and bool(old.get(key))
    if is_dropped and new.get("sendSecondaryIpRangeIfEmpty") is True:
        return {**new, key: []}
    return new


def _ranges_by_name(old: Json, new: Json) -> Json:
    """Put secondary ranges into the places that ranges of the same name have in the state."""
    key = "secondaryIpRanges"
    before = [as_object(item) or {} for item in as_list(old.get(key)) or []]
    after = [as_object(item) or {} for item in as_list(new.get(key)) or []]
    if not before or not after:
        return new
    places = {item.get("rangeName"): number for number, item in enumerate(before)}
    ordered: list[Json | None] = [None] * len(after)
    rest: list[Json] = []
    for item in after:
        place = places.get(item.get("rangeName"), len(after))
        if place < len(after) and ordered[place] is None:
            ordered[place] = item
        else:
            rest.append(item)
    filled = [item if item is not None else rest.pop(0) for item in ordered]
    return {**new, key: [_with_computed(item, before, places) for item in filled]}


def _with_computed(item: Json, before: list[Json], places: dict[Any, int]) -> Json:
    place = places.get(item.get("rangeName"))
    if place is None:
        return item
    kept = ("ipCidrRange", "ipVersion")
    return {**{key: before[place][key] for key in kept if key in before[place]}, **item}


def _same_images(old: Json, new: Json) -> Json:
    before = [as_object(disk) or {} for disk in as_list(old.get("disks")) or []]
    after = as_list(new.get("disks")) or []
    if not before or not after:
        return new
    project = str(old.get("project") or "")
    disks: list[Any] = []
    for was, disk in zip([*before, *([{}] * len(after))], after, strict=False):
        mapping = as_object(disk) or {}
        images = was.get("sourceImage"), mapping.get("sourceImage")
        is_same = all(isinstance(item, str) for item in images) and is_same_image(
            str(images[0]), str(images[1]), project
        )
        disks.append({**mapping, "sourceImage": images[0]} if is_same else disk)
    return {**new, "disks": disks}


def _writer(old: Json, new: Json) -> list[str]:
    becomes = new.get("uniqueWriterIdentity") is True and old.get("uniqueWriterIdentity") is False
    return ["writerIdentity"] if becomes else []


def _content(old: Json, new: Json) -> list[str]:
    keys = ("content", "source", "sourceMd5hash")
    changed = any(new.get(key) != old.get(key) for key in keys)
    return ["crc32c", "generation", "md5hash"] if changed else []


_Plan = Callable[[Json, Json], Json]
_PLANS: dict[str, tuple[_Plan, ...]] = {
    "compute/instanceTemplate": (_same_images,),
    "compute/subnetwork": (_dropped_ranges, _ranges_by_name),
    "container/cluster": (
        _inline_pool_networks,
        _without_empty_accelerators,
        _autopilot,
        _privileged_admission,
    ),
    "container/nodePool": (_pool_networks, _without_empty_accelerators),
}
_UNKNOWN: dict[str, Callable[[Json, Json], list[str]]] = {
    "logging/projectSink": _writer,
    "storage/bucketObject": _content,
}
