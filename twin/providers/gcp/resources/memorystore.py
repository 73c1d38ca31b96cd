"""Memorystore for Valkey: Google's checks for instances, and their outputs."""

import re
from typing import Final

from twin.providers.gcp.resources.identity import digest, digits
from twin.wire.property_values import CloudError, Json, as_list, as_object, last_segment
from twin.world.rules import all_rules
from twin.world.store import Record, Store

INSTANCE: Final = "gcp:memorystore/instance:Instance"
POLICY: Final = "gcp:networkconnectivity/serviceConnectionPolicy:ServiceConnectionPolicy"
PORT: Final = 6379
_CLASS: Final = "gcp-memorystore"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{2,61}[a-z0-9]")
_NODE_GB: Final = {
    "SHARED_CORE_NANO": 1.4,
    "CUSTOM_PICO": 5.0,
    "CUSTOM_MICRO": 8.0,
    "CUSTOM_MINI": 12.0,
    "STANDARD_SMALL": 6.5,
    "HIGHCPU_MEDIUM": 10.0,
    "HIGHMEM_MEDIUM": 13.0,
    "STANDARD_LARGE": 26.0,
    "HIGHMEM_XLARGE": 58.0,
    "HIGHMEM_2XLARGE": 116.0,
}
"""Node types, with the memory that a node reports."""
_CHOICES: Final = {
    "nodeType": tuple(_NODE_GB),
    "engineVersion": ("VALKEY_7_2", "VALKEY_8_0", "VALKEY_9_0"),
    "authorizationMode": ("AUTH_DISABLED", "IAM_AUTH", "TOKEN_AUTH"),
    "transitEncryptionMode": ("TRANSIT_ENCRYPTION_DISABLED", "SERVER_AUTHENTICATION"),
}
_DEFAULTS: Final[Json] = {
    "authorizationMode": "AUTH_DISABLED",
    "engineVersion": "VALKEY_8_0",
    "mode": "CLUSTER",
    "nodeType": "HIGHMEM_MEDIUM",
    "persistenceConfig": {"mode": "DISABLED"},
    "replicaCount": 0,
    "transitEncryptionMode": "TRANSIT_ENCRYPTION_DISABLED",
    "zoneDistributionConfig": {"mode": "MULTI_ZONE"},
}


def _refused(field: str, wanted: str, got: object) -> CloudError:
    return CloudError(400, f"{field}: must be {wanted}, got {got}", "invalid")


def check_instance(values: Json) -> None:
    """Reject instance values that Google would reject.

    Raises:
        CloudError: the first error.
    """
    name = str(values.get("instanceId"))
    if not _NAME.fullmatch(name):
        wanted = "4 to 63 lowercase letters, digits and hyphens, with no hyphen at an end"
        raise _refused("instanceId", wanted, name)
    for field, choices in _CHOICES.items():
        asked = values.get(field)
        if asked is not None and asked not in choices:
            raise _refused(field, f"one of {', '.join(choices)}", asked)
    shards, replicas = int(values["shardCount"]), int(values.get("replicaCount") or 0)
    most = int(all_rules()["memorystore.replicas"].value)
    if not 0 <= replicas <= most:
        raise _refused("replicaCount", f"0 to {most}", replicas)
    if values.get("mode") == "CLUSTER_DISABLED" and shards != 1:
        raise _refused("shardCount", "1 with mode CLUSTER_DISABLED", shards)
    units = int(all_rules()["memorystore.units"].value)
    if shards < 1 or shards * (1 + replicas) > units:
        wanted = f"at least 1, and with its replicas at most {units} nodes"
        raise _refused("shardCount", wanted, f"{shards} with {replicas} replicas each")
    if values.get("authorizationMode") not in (None, "AUTH_DISABLED"):
        text = f"the twin checks no credentials of clients, got {values['authorizationMode']}"
        raise CloudError(400, f"authorizationMode: {text}", "invalid")


def check_new_instance(values: Json, store: Store) -> None:
    """Reject a new instance with invalid values or a network without a connection policy.

    Raises:
        CloudError: the first error.
    """
    check_instance(values)
    location = str(values["location"])
    for wanted in connections(values):
        network = last_segment(str(wanted.get("network")))
        if policy_of(store, location, network) is None:
            text = (
                f"network {network} must have a service connection policy of class {_CLASS} "
                f"in {location}, got none"
            )
            raise CloudError(400, text, "failedPrecondition")


def check_connection_policy(values: Json, store: Store) -> None:
    """Reject a second policy of the same class for a network in a region.

    Raises:
        CloudError: the network already has such a policy.
    """
    for other in store.find(POLICY):
        same = ("network", "location", "serviceClass")
        mine, theirs = ([last_segment(str(v.get(k))) for k in same] for v in (values, other.inputs))
        if mine == theirs:
            text = f"network {mine[0]} has the policy {other.id} of class {mine[2]} in {mine[1]}"
            raise CloudError(409, text, "alreadyExists")


def policy_of(store: Store, location: str, network: str) -> Record | None:
    """Return the service connection policy for Memorystore of a network in a region."""
    for record in store.find(POLICY):
        if (
            record.inputs.get("serviceClass") == _CLASS
            and record.inputs.get("location") == location
            and last_segment(str(record.inputs.get("network"))) == network
            and record.status != "deleting"
        ):
            return record
    return None


def check_policy_unused(record: Record, store: Store) -> None:
    """Reject the deletion of a policy that an instance uses.

    Raises:
        CloudError: an instance has a connection of the policy.
    """
    place = str(record.inputs.get("location"))
    network = last_segment(str(record.inputs.get("network")))
    for instance in store.find(INSTANCE):
        named = [last_segment(str(c.get("network"))) for c in connections(instance.inputs)]
        if instance.inputs.get("location") == place and network in named:
            text = f"{record.id} has connections of {instance.id}; delete these first"
            raise CloudError(400, text, "resourceInUseByAnotherResource")


def connections(values: Json) -> list[Json]:
    """Return the networks to which an instance connects."""
    wanted = as_list(values.get("desiredAutoCreatedEndpoints")) or as_list(
        values.get("desiredPscAutoConnections")
    )
    return [found for item in wanted or [] if (found := as_object(item)) is not None]


def outputs(values: Json, resource_id: str, seed: str, _project: str) -> Json:
    """Return the outputs of a new instance, except its addresses."""
    found: Json = {k: v for k, v in _DEFAULTS.items() if values.get(k) is None}
    node = str(values.get("nodeType") or _DEFAULTS["nodeType"])
    return {
        **found,
        "name": resource_id,
        "state": "ACTIVE",
        "uid": digest(seed)[:32],
        "nodeConfigs": [{"sizeGb": _NODE_GB.get(node, 0.0)}],
    }


def endpoints(values: Json, resource_id: str, address: str) -> Json:
    """Return the endpoints of an instance, in the current and the legacy format."""
    found: list[Json] = []
    old: list[Json] = []
    _, project, _, location, _, name = resource_id.split("/")
    attachment = f"projects/{digits('memorystore', project, length=12)}/regions/{location}"
    kinds = ["CONNECTION_TYPE_DISCOVERY"]
    if values.get("mode") == "CLUSTER_DISABLED":
        kinds = ["CONNECTION_TYPE_PRIMARY", "CONNECTION_TYPE_READER"]
    for wanted in connections(values):
        own = str(wanted.get("projectId") or project)
        network = str(wanted.get("network"))
        for kind in kinds:
            rule = f"sca-auto-fr-{digest(resource_id, network, kind)[:32]}"
            connection: Json = {
                "connectionType": kind,
                "forwardingRule": f"projects/{own}/regions/{location}/forwardingRules/{rule}",
                "ipAddress": address,
                "network": network,
                "port": PORT,
                "projectId": own,
                "pscConnectionId": digits(resource_id, network, kind, length=17),
                "serviceAttachment": f"{attachment}/serviceAttachments/{name}-psc-sa",
            }
            found.append({"connections": [{"pscAutoConnection": connection}]})
            old.append({**connection, "pscConnectionStatus": "ACTIVE"})
    merged = [{"connections": [c for e in found for c in e["connections"]]}] if found else []
    is_old = bool(as_list(values.get("desiredPscAutoConnections")))
    first = [{k: old[0][f] for k, f in _DISCOVERY.items()}] if is_old and old else []
    return {
        "endpoints": merged,
        "pscAutoConnections": old if is_old else [],
        "discoveryEndpoints": first,
        "pscAttachmentDetails": [
            {
                "connectionType": kind,
                "serviceAttachment": f"{attachment}/serviceAttachments/{name}-psc-sa",
            }
            for kind in kinds
        ],
    }


_DISCOVERY: Final = {"address": "ipAddress", "network": "network", "port": "port"}
