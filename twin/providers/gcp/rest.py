"""Google's REST APIs, as far as a twin can answer them: reads of what it keeps.

Paths and fields are those of Google's API references, which the identifiers and outputs of the
provider follow but for a few names. What may exist outside of any stack, and what the twin has no
model of (permissions, organization policies, odds of a machine), is answered with 501: a reader can
tell what is not there from what nobody knows. Rule: cloud.rest.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from gke_inference.catalogue.accelerators import accelerator
from twin.host.paths import TwinPaths
from twin.providers.gcp.server import world_of
from twin.wire.property_values import Json
from twin.world.capacity import UNLIMITED, StockLine, World
from twin.world.capacity_ledger import Ledger
from twin.world.quota import is_accelerator
from twin.world.store import Record

Answer = tuple[int, Json]
ELSEWHERE: Final = 0
"""Status of a call that the server of the buckets answers."""

_SERVICE: Final = "gcp:projects/service:Service"
_BUCKET: Final = "gcp:storage/bucket:Bucket"
_CLUSTER: Final = "gcp:container/cluster:Cluster"
_VERSION: Final = re.compile(r"^(compute/|dns/)?v\d+/")
_LISTED: Final = ("alertPolicies", "notificationChannels")
_NOT_OURS: Final = {
    "certificates": "certificates that no stack made, but for their names in capacity.yaml",
    "connections": "connections of Cloud Build",
    "images": "disk images that no stack made",
    "managedZones": "zones of Cloud DNS that no stack made, but for their names in capacity.yaml",
    "reservations": "reservations that no stack made and capacity.yaml does not count",
    "repositories": "repositories of Cloud Build",
    "snapshots": "snapshots that no stack made",
}
"""Collections whose resources may be there without a stack, and what the twin does not keep."""
_NO_MODEL: Final = {
    "capacity": "odds of a machine",
    "getEffectivePolicy": "policies of an organization",
    "testIamPermissions": "permissions of a caller",
}
"""Methods that ask for what the twin has no model of."""
_OF_PULUMI: Final = ("deletionPolicy", "effectiveLabels", "project", "pulumiLabels")


def answer(paths: TwinPaths, number: int, host: str, path: str) -> Answer:
    """Return the status and the body of the answer to one call; a status may be `ELSEWHERE`.

    Args:
        paths: of the twin.
        number: of the project.
        host: of the API, such as `container.googleapis.com`.
        path: of the call, with the version and without a query.
    """
    records = world_of(paths).store.all()
    if host == "storage.googleapis.com":
        return _bucket(records, path)
    name = _VERSION.sub("", path)
    if host == "serviceusage.googleapis.com":
        return _service(records, number, name)
    action = re.split(r"[/:]", name)[-1]
    if action in _NO_MODEL:
        return _unknown(_NO_MODEL[action])
    if action in _LISTED:
        return 200, _listed(records, name)
    found = next((record for record in records if record.id == name), None)
    return _absent(paths, name) if found is None else (200, _body(records, found))


def _absent(paths: TwinPaths, name: str) -> Answer:
    """Return the answer about what no stack made."""
    collection, _, last = name.rpartition("/")
    kind = collection.rpartition("/")[2]
    if kind == "reservations":
        zone = name.split("/")[3]
        return _reservation(paths, zone, last)
    world = World.load(paths.capacity_file)
    is_named = last in world.zones or any(
        each.name == last and fnmatchcase(name.split("/")[3], each.region)
        for each in world.certificates
    )
    if kind in {"certificates", "managedZones"} and not is_named:
        return _not_found(name)  # the twin's gateways refuse it, too
    if kind in _NOT_OURS:
        return _unknown(_NOT_OURS[kind])
    return _not_found(name)


def _not_found(name: str) -> Answer:
    return 404, {"error": {"message": f"{name} was not found"}}


def _unknown(what: str) -> Answer:
    return 501, {"error": {"message": f"the twin does not keep {what}"}}


def _service(records: list[Record], number: int, name: str) -> Answer:
    """Return the APIs that are on, or the name of one, by which the project's number is known."""
    project, _, api = name.partition("/services")
    if api:
        return 200, {"name": f"projects/{number}/services{api}"}
    names = [
        record.name
        for record in records
        if record.type == _SERVICE and f"projects/{record.project}" == project
    ]
    return 200, {"services": [{"name": f"projects/{number}/services/{each}"} for each in names]}


def _bucket(records: list[Record], path: str) -> Answer:
    """Return a bucket that a stack made; what is in buckets is the business of their server."""
    name = path.removeprefix("storage/v1/b/")
    for record in records:
        if record.type == _BUCKET and record.id == name:
            return 200, _plain(record.outputs)
    return ELSEWHERE, {}


def _listed(records: list[Record], name: str) -> Json:
    found = [_body(records, each) for each in records if each.id.rpartition("/")[0] == name]
    return {name.rpartition("/")[2]: found}


def _body(records: list[Record], record: Record) -> Json:
    body = {"name": record.id, **_plain(record.outputs)}
    if record.type == _CLUSTER:
        pools = [each for each in records if each.id.startswith(f"{record.id}/nodePools/")]
        body["nodePools"] = [_pool(each.outputs) for each in pools]
    return body


def _pool(outputs: Mapping[str, Any]) -> Json:
    """Return a node pool: the API calls the settings of its nodes `config`."""
    body = _plain(outputs)
    config = body.pop("nodeConfig", {})
    return {**body, "config": config}


def _plain(outputs: Mapping[str, Any]) -> Json:
    return {key: value for key, value in outputs.items() if key not in _OF_PULUMI}


def _reservation(paths: TwinPaths, zone: str, name: str) -> Answer:
    """Return a reservation of TPU chips that `capacity.yaml` counts under its own name.

    Fields: compute/docs/reference/rest/v1/reservations (2026-11-22).
    """
    world = World.load(paths.capacity_file)
    lines = [
        line
        for line in world.stock
        if line.reservation is not None
        and fnmatchcase(zone, line.zone)
        and fnmatchcase(name, line.reservation)
    ]
    if not lines and world.default == "none":
        return _not_found(f"reservation {name} in {zone}")
    own = [line for line in lines if line.reservation == name and line.limit < UNLIMITED]
    if not own or not _is_tpu(own[0]):
        return _unknown(_NOT_OURS["reservations"])
    used = sum(
        holding.claim.chips
        for holding in Ledger.everything(paths)
        if (holding.claim.zone, holding.claim.reservation) == (zone, name)
    )
    family = accelerator(own[0].accelerator).machines[0].name.partition("-")[0].upper()
    return 200, {
        "name": name,
        "zone": zone,
        "status": "READY",
        "aggregateReservation": {
            "vmFamily": f"VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_{family}",
            "reservedResources": _chips(int(own[0].limit)),
            "inUseResources": _chips(used),
        },
    }


def _is_tpu(line: StockLine) -> bool:
    return is_accelerator(line.accelerator) and accelerator(line.accelerator).kind == "tpu"


def _chips(count: int) -> list[Json]:
    return [{"accelerator": {"acceleratorCount": count}}]
