"""Statuses, written to the API server only if they change."""

import logging

from twin.cluster.base.reports import timestamp
from twin.cluster.gateway.translation.conditions import StatusUpdate, merge_conditions
from twin.cluster.gateway.translation.objects import CONTROLLER, WATCHED, JsonObject, items, mapping
from twin.wire.kube import Kube, KubeError

_NOTHING: JsonObject = {}
_log = logging.getLogger(__name__)


def _entries(
    old: list[JsonObject], new: list[JsonObject], ref: str, generation: int, now: str
) -> list[JsonObject]:
    """Return status entries: those of other controllers unchanged, then the twin's."""
    others = [entry for entry in old if entry.get("controllerName") not in {CONTROLLER, None}]
    before = [entry for entry in old if entry.get("controllerName") == CONTROLLER]
    merged = list(others)
    for entry in new:
        known: JsonObject = next((b for b in before if _same_ref(b[ref], entry[ref])), _NOTHING)
        conditions = merge_conditions(
            items(known, "conditions"), entry["conditions"], generation, now
        )
        merged.append({**entry, "conditions": conditions})
    return merged


def _same_ref(one: JsonObject, other: JsonObject) -> bool:
    return all(one.get(k) == v for k, v in other.items())


def merged_status(obj: JsonObject, update: StatusUpdate, now: str) -> JsonObject:
    """Return the desired status of an object, with times and generations.

    Args:
        obj: current object.
        update: desired content of the status.
        now: timestamp for changed conditions.
    """
    old: JsonObject = mapping(obj, "status")
    generation = int(obj["metadata"].get("generation", 1))
    status = dict(update.status)
    if "conditions" in status:
        status["conditions"] = merge_conditions(
            items(old, "conditions"), status["conditions"], generation, now
        )
    for field, ref in (("parents", "parentRef"), ("ancestors", "ancestorRef")):
        if field in status:
            status[field] = _entries(items(old, field), status[field], ref, generation, now)
    if "listeners" in status:
        known = {item["name"]: item for item in items(old, "listeners")}
        status["listeners"] = [
            {
                **item,
                "conditions": merge_conditions(
                    known.get(item["name"], {}).get("conditions") or [],
                    item["conditions"],
                    generation,
                    now,
                ),
            }
            for item in status["listeners"]
        ]
    return status


class StatusWriter:
    """A writer that remembers statuses, so that none is written twice."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._written: dict[tuple[str, tuple[str, str]], tuple[str, JsonObject]] = {}

    def write(self, obj: JsonObject, update: StatusUpdate) -> None:
        """Write an object's status; log errors, and retry in the next round."""
        old: JsonObject = mapping(obj, "status")
        status = merged_status(obj, update, timestamp())
        if all((old.get(k) or []) == v for k, v in status.items()):
            return
        slot, uid = (update.kind, update.key), str(obj["metadata"].get("uid"))
        plain = (uid + str(obj["metadata"].get("generation")), update.status)
        if self._written.get(slot) == plain:
            return  # written, but the watch has not brought it back yet, or fields were pruned
        root, plural = WATCHED[update.kind].rsplit("/", 1)
        namespace, name = update.key
        middle = f"/namespaces/{namespace}" if namespace else ""
        try:
            path = f"{root}{middle}/{plural}/{name}/status"
            self._kube.patch(path, {"status": status}, "merge")
        except KubeError as error:
            if error.status not in {404, 409}:
                _log.warning("status of %s %s/%s: %s", update.kind, namespace, name, error)
            return
        self._written[slot] = plain
