"""Default values like the provider's: schema defaults, a name, labels."""

import hashlib
from collections.abc import Callable
from typing import Any

from twin.providers.gcp.schema import Autoname, Field, Resource
from twin.wire.property_values import Json, as_list, as_object, is_unknown

ATTRIBUTION_LABEL = ("goog-pulumi-provisioned", "true")
LIST = "__defaults"
"""Input key that lists the properties that the provider set by default."""
_MAX_NAMES = 10_000


def fill_in(
    known: Resource, inputs: Json, old: Json | None = None, named: str | None = None
) -> Json:
    """Return the inputs with the schema's defaults, including in the given blocks.

    As in the official provider (pulumi-terraform-bridge, pkg/tfbridge/schema.go, `applyDefaults`,
    read 2026-11-22), there is no default for a deprecated property, none next to a conflicting
    property, and none that is false, zero or empty. Each block lists its default values, and an
    earlier default value is kept. A property whose value is null is left out.

    Args:
        known: the resource type.
        inputs: inputs of the program, without such lists.
        old: previous inputs, with such lists; empty for a new resource.
        named: property with a generated name.
    """
    filled = _fill(known.root, inputs, inputs, old or {})
    if named is not None:
        filled[LIST] = sorted([*filled[LIST], named])
    return filled


def with_every_default(field: Field, value: Json, top: Json | None = None) -> Json:
    """Return values with all schema defaults, like a plan that computes outputs from inputs."""
    whole = value if top is None else top
    filled: Json = {}
    for key, item in value.items():
        child = field.children.get(key)
        filled[key] = item if child is None else _with_every_default(child, item, whole)
    for key, child in field.children.items():
        is_open = value.get(key) is None and not child.is_output_only
        if is_open and child.default is not None and not _has_rival(field, child, value, whole):
            filled[key] = _typed(child, child.default)
    return filled


def _with_every_default(field: Field, value: Any, top: Json) -> Any:
    items, mapping = as_list(value), as_object(value)
    if not field.block.children:
        return value
    if items is not None:
        return [_with_every_default(field.block, item, top) for item in items]
    return value if mapping is None else with_every_default(field.block, mapping, top)


def without_lists(value: Any) -> Any:
    """Return a value without the lists of default values, at any depth."""
    items, mapping = as_list(value), as_object(value)
    if items is not None:
        return [without_lists(item) for item in items]
    if mapping is None:
        return value
    return {key: without_lists(item) for key, item in mapping.items() if key != LIST}


def with_lists(value: Any, pattern: Any) -> Any:
    """Return a value with the lists of default values from another value."""
    items, mapping = as_list(value), as_object(value)
    others, other = as_list(pattern), as_object(pattern)
    if items is not None and others is not None:
        rest = [None] * len(items)
        return [with_lists(*pair) for pair in zip(items, [*others, *rest], strict=False)]
    if mapping is None or other is None:
        return value
    lists = {LIST: other[LIST]} if LIST in other else {}
    return {**{key: with_lists(item, other.get(key)) for key, item in mapping.items()}, **lists}


def _fill(field: Field, value: Json, top: Json, old: Json) -> Json:
    filled: Json = {}
    for key, item in value.items():
        child = field.children.get(key)
        if item is not None:
            filled[key] = item if child is None else _fill_value(child, item, top, old.get(key))
    listed: list[str] = []
    for key, child in field.children.items():
        if value.get(key) is not None or not _has_default(child):
            continue
        if _has_rival(field, child, value, top) or _has_default_rival(field, child):
            continue
        default = _default(child, key, old)
        if default is not None:
            filled[key] = default
            listed.append(key)
    filled[LIST] = sorted(listed)
    return filled


def _has_default(child: Field) -> bool:
    is_gone = child.deprecated and not child.required
    return child.default is not None and not child.is_output_only and not is_gone


def _has_default_rival(parent: Field, child: Field) -> bool:
    """Return whether a conflicting property has a default."""
    for path in (*child.conflicts_with, *child.exactly_one_of):
        rival = parent.by_source_name.get(path.rpartition(".")[2])
        if path != child.path and rival is not None and rival.default is not None:
            return True
    return False


def _default(child: Field, key: str, old: Json) -> Any:
    """Return the default of a property: the previous one, or the schema's."""
    if old.get(key) is not None and key in (as_list(old.get(LIST, [key])) or []):
        return old[key]
    is_zero = child.default in (False, 0, "")
    return None if is_zero and not child.is_overlay_default else _typed(child, child.default)


def _fill_value(field: Field, value: Any, top: Json, old: Any) -> Any:
    if not field.block.children:
        return value
    items, mapping = as_list(value), as_object(value)
    if items is not None:
        before = [*(as_list(old) or []), *([None] * len(items))]
        return [
            _fill_value(field.block, item, top, was)
            for item, was in zip(items, before, strict=False)
        ]
    return value if mapping is None else _fill(field.block, mapping, top, as_object(old) or {})


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
    """Return a name for a resource that the user did not name.

    The official provider adds random digits. Here they come from the URN, so that two previews of
    one program agree. A name in use (the old object of a replacement) is skipped.
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
        settings: settings of the provider: `defaultLabels`, `addPulumiAttributionLabel`.
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
