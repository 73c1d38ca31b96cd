"""Conversion between the engine's property maps and the objects of an API server."""

from typing import Any, cast

from twin.providers.kubernetes.manifests.managers import STATE_KEY
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY, strip_secrets

INITIAL_VERSION = "__initialApiVersion"
_CRD = "CustomResourceDefinition"
_SERVER_METADATA = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)


def to_object(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs as an object for the API server: no secret wrappers, no nulls."""
    obj = _without_nulls(strip_secrets(inputs))
    return _rename(obj, _to_dashes) if inputs.get("kind") == _CRD else obj


def to_outputs(
    live: dict[str, Any], inputs: dict[str, Any], manager: str, initial_version: str = ""
) -> dict[str, Any]:
    """Return a live object as outputs; secrets in the inputs are secrets in the outputs.

    As in the official provider (`checkpointObject`, v4.32.0), they also contain data for the next
    run: the inputs, the API version the object was created with, and its field manager.

    Args:
        live: object from the API server.
        inputs: inputs from the engine, with secret wrappers.
        manager: field manager of the object.
        initial_version: API version at creation; by default that of the inputs.
    """
    outputs = _rename(live, _to_underscores) if live.get("kind") == _CRD else dict(live)
    metadata = {k: v for k, v in live.get("metadata", {}).items() if k != "managedFields"}
    outputs["metadata"] = metadata
    return {
        **_hide_data(mark_secrets(outputs, inputs)),
        "__inputs": _hide_data(inputs),
        INITIAL_VERSION: initial_version or inputs.get("apiVersion") or live.get("apiVersion"),
        STATE_KEY: manager,
    }


def to_inputs(shown: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a read as inputs; secrets remain secrets."""
    renamed = _rename(shown, _to_underscores) if shown.get("kind") == _CRD else shown
    return _hide_data(mark_secrets(renamed, inputs))


def _hide_data(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the data of a Secret marked as secret."""
    if obj.get("kind") != "Secret" or obj.get("apiVersion") != "v1":
        return obj
    return {
        key: _secret(value)
        if key in ("data", "stringData") and value is not None and SIGNATURE_KEY not in value
        else value
        for key, value in obj.items()
    }


def as_inputs(live: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs of an imported object, without status and server-set fields."""
    inputs = {key: value for key, value in live.items() if key != "status"}
    metadata = {k: v for k, v in live["metadata"].items() if k not in _SERVER_METADATA}
    revision = "deployment.kubernetes.io/revision"
    if revision in metadata.get("annotations", {}):
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if key != revision
        }
    inputs["metadata"] = metadata
    return inputs


def mark_secrets(value: Any, pattern: Any) -> Any:
    """Return `value` with secret wrappers where `pattern` has them."""
    if isinstance(pattern, dict):
        wanted = cast(dict[str, Any], pattern)
        if wanted.get(SIGNATURE_KEY) == SECRET_SIGNATURE:
            return _secret(value)
        if isinstance(value, dict):
            mapping = cast(dict[str, Any], value)
            return {
                key: mark_secrets(item, wanted[key]) if key in wanted else item
                for key, item in mapping.items()
            }
    if isinstance(pattern, list) and isinstance(value, list):
        patterns = cast(list[Any], pattern)
        items = cast(list[Any], value)
        return [
            mark_secrets(item, patterns[index]) if index < len(patterns) else item
            for index, item in enumerate(items)
        ]
    return value


def identifier(obj: dict[str, Any]) -> str:
    """Return the ID of an object: `NAMESPACE/NAME`, or `NAME` if it is cluster-scoped."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_identifier(identity: str) -> tuple[str | None, str]:
    """Return (namespace, name) of an ID."""
    namespace, _, name = identity.rpartition("/")
    return namespace or None, name


def _secret(value: Any) -> Any:
    return {SIGNATURE_KEY: SECRET_SIGNATURE, "value": value}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        return {key: _without_nulls(item) for key, item in mapping.items() if item is not None}
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [_without_nulls(item) for item in items]
    return value


# The SDK cannot have dashes or `$` in field names of a CRD's schema.
def _to_dashes(key: str) -> str:
    if key.startswith("x_kubernetes_"):
        return key.replace("_", "-")
    return {"_ref": "$ref", "_schema": "$schema"}.get(key, key)


def _to_underscores(key: str) -> str:
    if key.startswith("x-kubernetes-"):
        return key.replace("-", "_")
    return {"$ref": "_ref", "$schema": "_schema"}.get(key, key)


def _rename(value: Any, renamed: Any) -> Any:
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        return {renamed(key): _rename(item, renamed) for key, item in mapping.items()}
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [_rename(item, renamed) for item in items]
    return value
