"""The input of `pulumi import --file`: resources of a stack and their IDs in Google Cloud."""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from scripts.backend.identifiers import IDENTIFIERS
from scripts.shared.stack_resource import STACK_TYPE
from twin.wire.property_values import UNKNOWN

State = dict[str, Any]

_ADOPTED: Final = {
    "account": "gcp:serviceaccount/account:Account",
    "address": "gcp:compute/address:Address",
    "bucket": "gcp:storage/bucket:Bucket",
    "cluster": "gcp:container/cluster:Cluster",
    "disk": "gcp:compute/disk:Disk",
    "firewall": "gcp:compute/firewall:Firewall",
    "network": "gcp:compute/network:Network",
    "pool": "gcp:container/nodePool:NodePool",
    "repository": "gcp:artifactregistry/repository:Repository",
    "router": "gcp:compute/router:Router",
    "subnet": "gcp:compute/subnetwork:Subnetwork",
}
_IDS: Final[dict[str, tuple[str, str]]] = dict(
    sorted(
        {
            **{word: (kind, IDENTIFIERS[kind][1]) for word, kind in _ADOPTED.items()},
            # part of its router in the API
            "nat": ("gcp:compute/routerNat:RouterNat", "{project}/{region}/{router}/{name}"),
        }.items()
    )
)
"""By the word for it, the type and the id of what can be adopted, in camelCase inputs
(pulumi.com/registry/packages/gcp/api-docs, the section Import of each type, 2026-11-22)."""

KINDS: Final = tuple(_IDS)
"""Kinds of resources that can be adopted."""

_VERSION: Final = re.compile(r"::default_(\d+)_(\d+)_(\d+)")
_FIELD: Final = re.compile(r"\{(\w+)\}")


class IdError(ValueError):
    """A resource whose ID cannot be derived from its inputs; the message names it."""


def import_file(states: list[State], kinds: Collection[str]) -> dict[str, Any]:
    """Return the file for `pulumi import --file`, with the components that are parents.

    Args:
        states: Resources that a first `up` of the stack would create, as the engine reports them.
        kinds: Words of `KINDS`.

    Raises:
        IdError: A preview does not have the inputs for an ID.
    """
    by_type = {_IDS[kind][0]: _IDS[kind][1] for kind in kinds}
    by_urn = {str(state["urn"]): state for state in states}
    entries: dict[str, dict[str, Any]] = {}
    for urn, state in by_urn.items():
        template = by_type.get(str(state["type"]))
        # a resource that is only read exists and is not managed by the stack
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
    """Yield the ancestor components of a resource, the topmost first."""
    parent = str(state.get("parent", ""))
    if parent in by_urn and by_urn[parent]["type"] != STACK_TYPE:
        yield from _parents(by_urn[parent], by_urn)
        yield parent


def _component(state: State) -> dict[str, Any]:
    return {**_named(state), "component": True}


def _resource(state: State) -> dict[str, Any]:
    version = _VERSION.search(str(state.get("provider", "")))
    if version is None:
        return _named(state)
    # without it the engine uses a different default provider than the program
    return {**_named(state), "version": ".".join(version.groups())}


def _named(state: State) -> dict[str, Any]:
    """Return type and names; `name` is unique in the file, because types may share names."""
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
