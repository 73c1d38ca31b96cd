"""What `pulumi import --file` reads: the resources of a stack, and their ids in Google Cloud."""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from twin.wire.rpc import UNKNOWN

State = dict[str, Any]

_PROJECT: Final = "projects/{project}"
_IDS: Final[dict[str, tuple[str, str]]] = {
    "account": (
        "gcp:serviceaccount/account:Account",
        _PROJECT + "/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
    ),
    "address": (
        "gcp:compute/address:Address",
        _PROJECT + "/regions/{region}/addresses/{name}",
    ),
    "bucket": ("gcp:storage/bucket:Bucket", "{name}"),
    "cluster": (
        "gcp:container/cluster:Cluster",
        _PROJECT + "/locations/{location}/clusters/{name}",
    ),
    "disk": ("gcp:compute/disk:Disk", _PROJECT + "/zones/{zone}/disks/{name}"),
    "firewall": ("gcp:compute/firewall:Firewall", _PROJECT + "/global/firewalls/{name}"),
    "nat": ("gcp:compute/routerNat:RouterNat", "{project}/{region}/{router}/{name}"),
    "network": ("gcp:compute/network:Network", _PROJECT + "/global/networks/{name}"),
    "pool": (
        "gcp:container/nodePool:NodePool",
        _PROJECT + "/locations/{location}/clusters/{cluster}/nodePools/{name}",
    ),
    "repository": (
        "gcp:artifactregistry/repository:Repository",
        _PROJECT + "/locations/{location}/repositories/{repositoryId}",
    ),
    "router": ("gcp:compute/router:Router", _PROJECT + "/regions/{region}/routers/{name}"),
    "subnet": (
        "gcp:compute/subnetwork:Subnetwork",
        _PROJECT + "/regions/{region}/subnetworks/{name}",
    ),
}
"""By the word for it, the type and the id of what can be adopted, in camelCase inputs
(pulumi.com/registry/packages/gcp/api-docs, the section Import of each type, 2026-11-22)."""

KINDS: Final = tuple(_IDS)
"""Words for what can be adopted."""

_STACK: Final = "pulumi:pulumi:Stack"
_VERSION: Final = re.compile(r"::default_(\d+)_(\d+)_(\d+)")
_FIELD: Final = re.compile(r"\{(\w+)\}")


class IdError(ValueError):
    """A resource whose id does not follow from its inputs; the message names it."""


def import_file(states: list[State], kinds: Collection[str]) -> dict[str, Any]:
    """Return the file for `pulumi import --file`, with the components that are parents.

    Args:
        states: Resources that a first `up` of the stack would create, as the engine reports them.
        kinds: Words of `KINDS`.

    Raises:
        IdError: An id does not follow from what a preview knows.
    """
    by_type = {_IDS[kind][0]: _IDS[kind][1] for kind in kinds}
    by_urn = {str(state["urn"]): state for state in states}
    entries: dict[str, dict[str, Any]] = {}
    for urn, state in by_urn.items():
        template = by_type.get(str(state["type"]))
        # one that is only read exists, and stays outside the stack
        if template is None or state.get("external"):
            continue
        for parent in _parents(state, by_urn):
            entries.setdefault(parent, _component(by_urn[parent]))
        entries[urn] = {**_resource(state), "id": _identifier(state, template)}
    for urn, entry in entries.items():
        parent = by_urn[urn].get("parent")
        if parent in entries:
            entry["parent"] = entries[str(parent)]["name"]
    return {"nameTable": {}, "resources": list(entries.values())}


def _parents(state: State, by_urn: dict[str, State]) -> Iterator[str]:
    """Yield the components above a resource, the highest first."""
    parent = str(state.get("parent", ""))
    if parent in by_urn and by_urn[parent]["type"] != _STACK:
        yield from _parents(by_urn[parent], by_urn)
        yield parent


def _component(state: State) -> dict[str, Any]:
    return {**_named(state), "component": True}


def _resource(state: State) -> dict[str, Any]:
    version = _VERSION.search(str(state.get("provider", "")))
    if version is None:
        return _named(state)
    # without it the engine takes another default provider than the program's
    return {**_named(state), "version": ".".join(version.groups())}


def _named(state: State) -> dict[str, Any]:
    """Return type and names; `name` is the file's own, as types may share a logical name."""
    logical = _logical_name(state)
    package, _, noun = str(state["type"]).split(":")
    return {"type": state["type"], "name": f"{package}-{noun}-{logical}", "logicalName": logical}


def _logical_name(state: State) -> str:
    return str(state["urn"]).split("::", 3)[3]


def _identifier(state: State, template: str) -> str:
    inputs: dict[str, Any] = state["inputs"]

    def value(field: re.Match[str]) -> str:
        found = inputs.get(field[1])
        if not isinstance(found, str) or found == UNKNOWN:
            name = f"{_logical_name(state)}.{field[1]}"
            raise IdError(f"{name}: must be known in a preview, as the resource's id has it")
        return found

    return _FIELD.sub(value, template)
