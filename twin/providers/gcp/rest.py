"""Google's REST APIs on a twin: reads of the resources that it stores.

Paths and fields are those of Google's API references, which the identifiers and outputs of the
provider follow except for a few names. The response is 501 for resources that can exist outside any
stack and that `capacity.yaml` lists by name only, and for everything that the twin does not model
(permissions, organization policies, odds of getting a machine), so that a reader can distinguish
"not found" from "unknown". Rules: cloud.rest, cloud.given.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from gke_inference.catalogue.accelerators import accelerator
from twin.host.paths import TwinPaths
from twin.providers.gcp.bigquery.inserts import shown, table_of
from twin.providers.gcp.resources.project_numbers import known_number
from twin.providers.gcp.server import world_of
from twin.wire.property_values import CloudError, Json
from twin.world.capacity import UNLIMITED, StockLine, World
from twin.world.capacity_ledger import Ledger
from twin.world.quota import is_accelerator
from twin.world.store import Record, Store

Answer = tuple[int, Json]
ELSEWHERE: Final = 0
"""Status for calls that the bucket server answers."""

_SERVICE: Final = "gcp:projects/service:Service"
_BUCKET: Final = "gcp:storage/bucket:Bucket"
_TRIGGER: Final = "gcp:cloudbuild/trigger:Trigger"
_CLUSTER: Final = "gcp:container/cluster:Cluster"
_VERSION: Final = re.compile(r"^(compute/|dns/)?v\d+/")
_LISTED: Final = ("alertPolicies", "notificationChannels")
_NOT_OURS: Final = {
    "certificates": "certificates that no stack made, except for their names in capacity.yaml",
    "connections": "connections of Cloud Build, except for their names in capacity.yaml",
    "images": "disk images that no stack made, except for their names in capacity.yaml",
    "managedZones": "DNS zones that no stack made, except for their names in capacity.yaml",
    "serviceAccounts": "accounts that no stack made, except for their names in capacity.yaml",
    "repositories": "repositories of Cloud Build, except for their names in capacity.yaml",
    "reservations": "the machines of reservations that capacity.yaml does not count",
    "versions": "secret versions that no stack made, except for their names in capacity.yaml",
    "snapshots": "snapshots that no stack made, except for their names in capacity.yaml",
}
"""Collections whose resources can exist without a stack; `capacity.yaml` lists their names only."""
_NO_MODEL: Final = {
    "capacity": "odds of a machine",
    "getEffectivePolicy": "policies of an organization",
    "testIamPermissions": "permissions of a caller",
}
"""Methods that the twin does not model."""
_OF_PULUMI: Final = ("deletionPolicy", "effectiveLabels", "project", "pulumiLabels")


def answer(paths: TwinPaths, number: int, host: str, path: str) -> Answer:
    """Return status and body of the response to a call; the status can be `ELSEWHERE`.

    Args:
        paths: paths of the twin.
        number: project number, unless the twin has learned another.
        host: host of the API, such as `container.googleapis.com`.
        path: path of the call, with the version and without a query.
    """
    records = world_of(paths).store.all()
    if host == "storage.googleapis.com":
        return _bucket(records, path)
    if host == "bigquery.googleapis.com":
        return _table(World.load(paths.capacity_file), path.removeprefix("bigquery/v2/"))
    name = _VERSION.sub("", path)
    if host == "serviceusage.googleapis.com":
        return _service(world_of(paths).store, number, name)
    action = re.split(r"[/:]", name)[-1]
    if action in _NO_MODEL:
        return _unknown(_NO_MODEL[action])
    if action in _LISTED:
        return 200, _listed(records, name)
    found = next((record for record in records if name in (record.id, _by_name(record))), None)
    return _absent(paths, name) if found is None else (200, _body(records, found))


def _by_name(record: Record) -> str:
    """Return the path of a trigger by its name, which Cloud Build accepts instead of the ID.

    Source: cloud.google.com/build/docs/api/reference/rest/v1/projects.triggers/get ("triggerId:
    Identifier (id or name) of the BuildTrigger to get"; 2026-11-28).
    """
    if record.type != _TRIGGER:
        return ""
    return f"{record.id.rpartition('/')[0]}/{record.inputs.get('name')}"


def _absent(paths: TwinPaths, name: str) -> Answer:
    """Return the response for a resource that no stack created."""
    collection, _, last = name.rpartition("/")
    kind = collection.rpartition("/")[2]
    if kind == "reservations":
        zone = name.split("/")[3]
        return _reservation(paths, zone, last)
    if kind in _NOT_OURS and _is_given(World.load(paths.capacity_file), kind, name):
        return _unknown(_NOT_OURS[kind])
    return _not_found(name)  # the twin refuses what needs it, too


def _is_given(world: World, kind: str, name: str) -> bool:
    """Return whether the world lists a resource (rule cloud.given)."""
    last = name.rpartition("/")[2]
    if kind == "certificates":
        region = name.split("/")[3]
        return any(
            each.name == last and fnmatchcase(region, each.region) for each in world.certificates
        )
    if kind == "managedZones":
        return last in world.zones
    if kind == "serviceAccounts":
        return last in world.service_accounts
    if kind == "connections":
        return any(each.startswith(f"{name}/") for each in world.build_repositories)
    return world.gives(name)


def _not_found(name: str) -> Answer:
    return 404, {"error": {"message": f"{name} was not found"}}


def _unknown(what: str) -> Answer:
    return 501, {"error": {"message": f"the twin does not keep {what}"}}


def _table(world: World, path: str) -> Answer:
    """Return a table that `capacity.yaml` lists; BigQuery's own server has its rows."""
    try:
        return 200, shown(table_of(world, path))
    except CloudError as error:
        return _not_found(error.message.removeprefix("Not found: "))


def _service(store: Store, number: int, name: str) -> Answer:
    """Return the enabled APIs, or the name of one, which shows the project number."""
    project, _, api = name.removeprefix("projects/").partition("/services")
    shown = f"projects/{known_number(project, store) or number}/services"
    if api:
        return 200, {"name": f"{shown}{api}"}
    found = [each.name for each in store.find(_SERVICE) if each.project == project]
    return 200, {"services": [{"name": f"{shown}/{each}"} for each in found]}


def _bucket(records: list[Record], path: str) -> Answer:
    """Return a bucket from a stack; the bucket server handles its objects."""
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
    if "generatedId" in record.outputs:  # the provider's name for it
        body["id"] = str(body.pop("generatedId"))
    if record.type == _CLUSTER:
        pools = [each for each in records if each.id.startswith(f"{record.id}/nodePools/")]
        body["nodePools"] = [_pool(each.outputs) for each in pools]
    return body


def _pool(outputs: Mapping[str, Any]) -> Json:
    """Return a node pool, whose node settings are named `config` in the API."""
    body = _plain(outputs)
    config = body.pop("nodeConfig", {})
    return {**body, "config": config}


def _plain(outputs: Mapping[str, Any]) -> Json:
    return {key: value for key, value in outputs.items() if key not in _OF_PULUMI}


def _reservation(paths: TwinPaths, zone: str, name: str) -> Answer:
    """Return a reservation of TPU chips that `capacity.yaml` lists by name.

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
    if not lines:
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
