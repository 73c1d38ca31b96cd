"""Fills inputs in as the provider does: defaults of the schema, a name, labels."""

import hashlib
from collections.abc import Callable
from typing import Any

from twin.providers.gcp.schema import Autoname, Field, Resource
from twin.wire.property_values import Json, as_list, as_object, is_unknown

ATTRIBUTION_LABEL = ("goog-pulumi-provisioned", "true")
_MAX_NAMES = 10_000


def fill_in(known: Resource, inputs: Json) -> Json:
    """Return the inputs with the schema's defaults, also inside the blocks that are given.

    A default is left out where a property that conflicts with it is given.
    """
    return _fill(known.root, inputs, inputs)


def _fill(field: Field, value: Json, top: Json) -> Json:
    filled: Json = {}
    for key, item in value.items():
        child = field.children.get(key)
        filled[key] = item if child is None else _fill_value(child, item, top)
    for key, child in field.children.items():
        if child.default is None or value.get(key) is not None or child.is_output_only:
            continue
        if not _has_rival(field, child, value, top):
            filled[key] = _typed(child, child.default)
    return filled


def _fill_value(field: Field, value: Any, top: Json) -> Any:
    if not field.block.children:
        return value
    items, mapping = as_list(value), as_object(value)
    if items is not None:
        return [_fill_value(field.block, item, top) for item in items]
    return value if mapping is None else _fill(field.block, mapping, top)


def _typed(field: Field, default: Any) -> Any:
    return str(default) if field.kind == "string" else default


def _has_rival(parent: Field, child: Field, value: Json, top: Json) -> bool:
    for path in (*child.conflicts_with, *child.exactly_one_of):
        if path == child.path:
            continue
        prefix, _, own = path.rpartition(".")
        if prefix == parent.path:
            rival = parent.by_source_name.get(own)
            if rival is not None and value.get(rival.name) is not None:
                return True
        elif "." not in path:
            words = path.split("_")
            camel = words[0] + "".join(word.capitalize() for word in words[1:])
            if top.get(camel) is not None:
                return True
    return False


def autonamed(auto: Autoname, logical_name: str, urn: str, is_taken: Callable[[str], bool]) -> str:
    """Return a name for a resource whose user gave none.

    The official provider adds random digits. Here they come from the URN, so that two previews of
    one program agree; a name in use (the old object of a replacement) is passed over.
    """
    stem = logical_name.lower() if auto.lowercase else logical_name
    stem = stem[: auto.max_len - auto.random_len - len(auto.separator)] + auto.separator
    for number in range(_MAX_NAMES):
        digest = hashlib.sha256(f"{urn}#{number}".encode()).hexdigest()
        name = stem + digest[: auto.random_len]
        if not is_taken(name):
            return name
    raise RuntimeError(f"no free name for {urn}")


def label_fields(known: Resource) -> tuple[str, str | None] | None:
    """Return the labels and annotations properties of a type that has effective labels."""
    fields = known.fields
    if "effectiveLabels" not in fields:
        return None
    labels = "resourceLabels" if known.kind == "container/cluster" else "labels"
    return labels, "annotations" if "effectiveAnnotations" in fields else None


def planned_labels(known: Resource, inputs: Json, old: Json, settings: Json) -> Json:
    """Return the outputs `pulumiLabels`, `effectiveLabels` and `effectiveAnnotations`.

    Args:
        known: the resource type.
        inputs: checked inputs.
        old: outputs before, empty on create.
        settings: of the provider: `defaultLabels`, `addPulumiAttributionLabel`.
    """
    outputs: Json = {}
    if "effectiveAnnotations" in known.fields:
        outputs["effectiveAnnotations"] = inputs.get("annotations") or {}
    names = label_fields(known)
    if names is None:
        return outputs
    own: Any = inputs.get(names[0])
    if is_unknown(own):
        return {**outputs, "pulumiLabels": own, "effectiveLabels": own}
    own = as_object(own) or {}
    labels: Json = {**(as_object(settings.get("defaultLabels")) or {}), **own}
    if settings.get("addPulumiAttributionLabel", True):
        labels.setdefault(*ATTRIBUTION_LABEL)
    gone = set(as_object(old.get("pulumiLabels")) or {})
    kept = {k: v for k, v in (as_object(old.get("effectiveLabels")) or {}).items() if k not in gone}
    return {**outputs, "pulumiLabels": labels, "effectiveLabels": {**kept, **labels}}
