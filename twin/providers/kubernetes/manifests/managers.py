"""Field managers of a program's objects, and takeover of fields.

Source: pulumi-kubernetes v4.32.0, `fieldManagerName` in provider/pkg/provider/provider.go and
`fixCSAFieldManagers`, `patchForce` in provider/pkg/await/await.go.
"""

import secrets
from typing import Any, cast

from twin.providers.kubernetes.manifests import naming
from twin.wire.kube import JsonObject, Kube, KubeError

STATE_KEY = "__fieldManager"
"""Output that stores the manager of an object between runs."""
CREATOR = "pulumi-kubernetes"
"""Manager of a created, not applied, object until its first update."""
_ANNOTATION = "pulumi.com/patchFieldManager"
_FORCE = "pulumi.com/patchForce"
_RANDOM_BYTES = 4
_ATTEMPTS = 5
_TAKEN_OVER = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    ("pulumi-kubernetes", "Update"),
    ("pulumi-resource-kubernetes", "Update"),
)
"""Prefix and operation of the managers whose fields an update takes over."""
_WITHOUT_APPLY = ("pulumi-kubernetes", "pulumi-kubernetes.exe", "pulumi-resource-kubernetes")


def manager_of(obj: JsonObject, state: JsonObject) -> str:
    """Return the field manager of an object: from its annotation, its state, or a new one.

    Args:
        obj: inputs.
        state: outputs of the last update; empty for a new object.
    """
    named = naming.annotations(obj).get(_ANNOTATION) or state.get(STATE_KEY)
    return str(named) if named else f"{CREATOR}-{secrets.token_hex(_RANDOM_BYTES)}"


def takes_over(
    obj: JsonObject, live: JsonObject | None, *, is_enabled: bool, is_preview: bool
) -> bool:
    """Return whether an apply overwrites fields of other managers.

    Args:
        obj: inputs.
        live: object before an update; None for a creation.
        is_enabled: `enablePatchForce` of the provider.
        is_preview: whether it is a preview, which forces for a creation and for a created object.
    """
    if is_enabled or naming.is_true(obj, _FORCE):
        return True
    entries: list[dict[str, Any]] = [] if live is None else managed_fields(live)
    if is_preview and live is None:
        return True
    if is_preview and any(
        entry.get("operation") == "Update" and entry.get("manager") in _WITHOUT_APPLY
        for entry in entries
    ):
        return True
    return live is not None and not entries


def managed_fields(live: JsonObject) -> list[JsonObject]:
    """Return the field managers of a live object with their fields."""
    return live.get("metadata", {}).get("managedFields") or []


def adopt(kube: Kube, live: JsonObject, manager: str) -> JsonObject:
    """Transfer the fields of kubectl and of the creation to a manager; return the object.

    Raises:
        KubeError: the object changed during every attempt.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        entries = adopted(managed_fields(live), manager)
        if entries is None:
            return live
        version = live["metadata"]["resourceVersion"]
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        try:
            return kube.patch(kube.path_of(live), patch, "json")
        except KubeError as error:
            if error.status != 409 or attempt == _ATTEMPTS:
                raise
        live = {**live, **kube.get(kube.path_of(live))}  # a controller was faster
    return live


def adopted(entries: list[JsonObject], manager: str) -> list[JsonObject] | None:
    """Return `managedFields` with the fields of kubectl and of the creation transferred. Pure.

    Return None if there is nothing to transfer.
    """
    own = next((each for each in entries if _is(each, manager, "Apply")), None)
    others = [each for each in entries if each is not own]
    taken = [each for each in others if _is_taken_over(each)]
    if not taken:
        return None
    fields: JsonObject = {} if own is None else own.get("fieldsV1") or {}
    for each in taken:
        fields = _union(fields, each.get("fieldsV1") or {})
    merged = {**(own or taken[0]), "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*(each for each in others if each not in taken), merged]


def relinquish(kube: Kube, live: JsonObject, manager: str) -> None:
    """Release every field of an object from a manager that applied it."""
    metadata = {key: live["metadata"].get(key) for key in ("name", "namespace")}
    kept = {key: value for key, value in metadata.items() if value is not None}
    empty = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": kept}
    kube.apply(empty, manager=manager, force=False, strict=False)


def _is(entry: JsonObject, manager: str, operation: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == operation


def _is_taken_over(entry: JsonObject) -> bool:
    return not entry.get("subresource") and any(
        str(entry.get("manager")).startswith(prefix) and entry.get("operation") == operation
        for prefix, operation in _TAKEN_OVER
    )


def _union(left: Any, right: Any) -> Any:
    if not isinstance(left, dict) or not isinstance(right, dict):
        return cast(Any, left)
    first, second = cast(JsonObject, left), cast(JsonObject, right)
    both: JsonObject = {
        key: _union(first[key], second[key])
        if key in first and key in second
        else first.get(key, second.get(key))
        for key in [*first, *(key for key in second if key not in first)]
    }
    return both
