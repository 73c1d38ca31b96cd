"""Computed outputs of resources: links, numbers, times, fingerprints, planned values."""

import base64
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from twin.providers.gcp.checks.defaults import planned_labels, with_every_default
from twin.providers.gcp.checks.planned_values import as_planned
from twin.providers.gcp.resources.identity import COMPUTE_API, digest, digits, project_number
from twin.providers.gcp.resources.special_outputs import special
from twin.providers.gcp.schema import Field, Resource
from twin.wire.property_values import (
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN,
    Json,
    as_list,
    as_object,
    is_unknown,
)

_PLAN_DEFAULTS = {
    "<provider project>": "project",
    "<provider region>": "region",
    "<provider zone>": "zone",
}
_NOT_KNOWN = ("", None)


def planned(known: Resource, inputs: Json, old: Json, settings: Json) -> Json:
    """Return the outputs of a preview: inputs, values computed in the plan, the rest unknown.

    Args:
        known: the resource type.
        inputs: checked inputs.
        old: previous outputs; empty for a new resource.
        settings: settings of the provider: project, region, zone, labels.
    """
    inputs = as_planned(known, old, with_every_default(known.root, inputs))
    result = _merge(known.root, old, inputs) if old else dict(inputs)
    for key, field in known.fields.items():
        if result.get(key) is None and field.plan_default is not None:
            named = _PLAN_DEFAULTS.get(field.plan_default)
            value = settings.get(named) if named else field.plan_default
            if value not in _NOT_KNOWN:
                result[key] = value
    result.update(planned_labels(known, inputs, old, settings))
    result.update(_planned_specially(known, result))
    if not old:
        for key, field in known.fields.items():
            if field.computed and result.get(key) is None:
                result[key] = UNKNOWN
    return result


def _planned_specially(known: Resource, values: Json) -> Json:
    if known.kind != "serviceaccount/account":
        return {}
    account, project = values.get("accountId"), values.get("project")
    if is_unknown(account) or is_unknown(project) or not project:
        return {}
    email = f"{account}@{project}.iam.gserviceaccount.com"
    return {"email": email, "member": f"serviceAccount:{email}"}


def _merge(field: Field, old: Json, new: Json) -> Json:
    """Overlay inputs on old outputs; keep computed values, and drop removed ones."""
    result: Json = {}
    for key in {**old, **new}:
        child = field.children.get(key)
        if key in new:
            result[key] = _merge_value(child, old.get(key), new[key])
        elif child is None or child.computed:
            result[key] = old[key]
    return result


def _merge_value(field: Field | None, old: Any, new: Any) -> Any:
    if field is None or field.kind == "map":
        return new
    before, after = as_object(old), as_object(new)
    if before is not None and after is not None and field.kind == "object":
        return _merge(field, before, after)
    was, now = as_list(old), as_list(new)
    if was is not None and now is not None and field.kind == "list" and len(was) == len(now):
        return [_merge_value(field.items, a, b) for a, b in zip(was, now, strict=True)]
    return new


def created(known: Resource, inputs: Json, resource_id: str, urn: str, settings: Json) -> Json:
    """Return the outputs of a new resource, without those of its effect.

    Args:
        known: the resource type.
        inputs: checked inputs, all known.
        resource_id: its id.
        urn: seed of the values that Google generates randomly.
        settings: settings of the provider.
    """
    project = str(inputs.get("project") or settings.get("project") or "")
    result = planned(known, inputs, {}, {**settings, "project": project})
    seed = f"{resource_id} {urn} {time.time_ns()}"
    for key, field in known.fields.items():
        if result.get(key) == UNKNOWN:
            make = _COMPUTED.get(key)
            value = None if make is None else make(resource_id, seed, project)
            if value is None or not _fits(field, value):
                del result[key]
            else:
                result[key] = value
    result.update(special(known, result, resource_id, seed, project))
    return result


def updated(known: Resource, inputs: Json, old: Json, settings: Json) -> Json:
    """Return the outputs of a resource after an update."""
    result = planned(known, inputs, old, {**settings, "project": old.get("project")})
    seed = f"{old.get('selfLink')} {time.time_ns()}"
    for key in (
        "etag",
        "fingerprint",
        "labelFingerprint",
        "metadataFingerprint",
        "tagsFingerprint",
    ):
        if key in old:
            result[key] = fingerprint(seed + key)
    for key in ("updateTime", "updated"):
        if key in old:
            result[key] = timestamp()
    return result


def timestamp() -> str:
    """Return the current time in Google's format."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fingerprint(seed: str) -> str:
    """Return eight bytes in base64, like Compute Engine's fingerprints."""
    return base64.urlsafe_b64encode(bytes.fromhex(digest(seed)[:16])).decode()


def _fits(field: Field, value: Any) -> bool:
    kinds = {"string": str, "int": int, "map": dict, "list": list, "bool": bool}
    return isinstance(value, kinds.get(field.kind, object))


def _self_link(resource_id: str, _seed: str, _project: str) -> Any:
    return COMPUTE_API + resource_id


_Make = Callable[[str, str, str], Any]
_COMPUTED: dict[str, _Make] = {
    "createTime": lambda _i, _s, _p: timestamp(),
    "creationTimestamp": lambda _i, _s, _p: timestamp(),
    "effectiveTime": lambda _i, _s, _p: timestamp(),
    "etag": lambda _i, seed, _p: fingerprint(seed + "etag"),
    "fingerprint": lambda _i, seed, _p: fingerprint(seed),
    "generatedId": lambda _i, seed, _p: int(digits(seed, length=18)),
    "labelFingerprint": lambda _i, _s, _p: "42WmSpB8rSM=",
    "labels": lambda _i, _s, _p: {},
    "name": lambda resource_id, _s, _p: resource_id,
    "numericId": lambda _i, seed, _p: digits(seed, length=18),
    "projectNumber": lambda _i, _s, project: int(project_number(project)),
    "selfLink": _self_link,
    "timeCreated": lambda _i, _s, _p: timestamp(),
    "uid": lambda _i, seed, _p: str(uuid.UUID(digest(seed)[:32])),
    "uniqueId": lambda _i, seed, _p: digits(seed, length=21),
    "updateTime": lambda _i, _s, _p: timestamp(),
    "updated": lambda _i, _s, _p: timestamp(),
}


def with_secrets(known: Resource, outputs: Json) -> Json:
    """Return outputs with the sensitive ones marked as secrets for the engine."""
    return _secret(known.root, outputs)


def _secret(field: Field, value: Any) -> Any:
    mapping, items = as_object(value), as_list(value)
    if items is not None:
        return [_secret(field.block, item) for item in items] if field.block.children else items
    if mapping is None or not field.children:
        return value
    result: Json = {}
    for key, item in mapping.items():
        child = field.children.get(key)
        if child is None:
            result[key] = item
        elif child.sensitive and item not in _NOT_KNOWN:
            result[key] = {SIGNATURE_KEY: SECRET_SIGNATURE, "value": item}
        else:
            result[key] = _secret(child, item)
    return result
