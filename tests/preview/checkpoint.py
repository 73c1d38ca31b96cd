"""A stack's state as an update would leave it, made from a preview, without cloud or cluster.

What only a cloud knows is missing in the outputs, so the next preview of the same program may show
updates; it must not show replacements, as identities and inputs are all there.
"""

import json
from typing import Any

from twin.wire.property_values import UNKNOWN

KNOWN = "known"
_COMPUTED: dict[str, dict[str, Any]] = {
    "gcp:container/cluster:Cluster": {
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": "gke.example.com"}}
    }
}
"""What the cloud adds to a resource and the program reads."""


def checkpoint(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what `pulumi stack import` takes, from the states a first preview would make."""
    ids = {state["urn"]: f"id-{index}" for index, state in enumerate(states)}
    defaults = sorted({urn for state in states if (urn := _provider_of(state)) and urn not in ids})
    return {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""},
            "resources": [
                *(_default_provider(urn) for urn in defaults),
                *(_resource(state, ids) for state in states),
            ],
        },
    }


def _provider_of(state: dict[str, Any]) -> str:
    return str(state.get("provider", "")).rpartition("::")[0]


def _default_provider(urn: str) -> dict[str, Any]:
    """Return a provider that the engine makes by itself, which a preview does not list."""
    version = urn.rsplit("default_", 1)[-1].replace("_", ".")
    inputs = {"version": version}
    return {
        "urn": urn,
        "custom": True,
        "id": KNOWN,
        "type": urn.split("::")[2],
        "inputs": inputs,
        "outputs": inputs,
    }


def _resource(state: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    inputs = dict(state.get("inputs") or {})
    sources: dict[str, list[str]] = state.get("propertyDependencies") or {}
    for key, value in inputs.items():
        if value == UNKNOWN and len(sources.get(key, [])) == 1:
            inputs[key] = ids[sources[key][0]]  # what is not known and has one source is its id
    made = json.loads(json.dumps({**state, "inputs": inputs}).replace(UNKNOWN, KNOWN))
    if made.get("custom"):
        made["id"] = ids[state["urn"]]
    if urn := _provider_of(state):
        made["provider"] = f"{urn}::{ids.get(urn, KNOWN)}"
    made["outputs"] = _merged(_COMPUTED.get(state["type"], {}), made["inputs"])
    return made


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return both, at any depth; where both have a value, that of `above`."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merged(below[key], above[key])
    return merged
