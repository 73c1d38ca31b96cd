"""Loading of the constraint data as field trees, once per resource."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from twin.providers.gcp.schema import sdk
from twin.providers.gcp.schema.fields import Autoname, Field, Resource

_DATA = Path(__file__).with_name("data")
_VALUE_RULES = (
    "enum",
    "enum_ignore_case",
    "known_values",
    "min",
    "max",
    "min_len",
    "max_len",
    "regex",
    "or_empty",
    "validator",
    "each",
)
_SUPPRESS = "diff_suppress"


@cache
def index() -> dict[str, Any]:
    """Return the index of the data: source, date, meaning of the keys, token to file."""
    return json.loads((_DATA / "index.json").read_text())


def source() -> tuple[str, str]:
    """Return the source of the constraints and the date of that version."""
    return index()["source"], index()["date"]


def tokens() -> tuple[str, ...]:
    """Return the resource types whose constraints are known."""
    return tuple(index()["resources"])


@cache
def resource(token: str) -> Resource | None:
    """Return a resource type, or None if neither the data nor `pulumi_gcp` has it."""
    short = index()["resources"].get(token)
    if short is None:
        return sdk.resource(token)
    content: dict[str, Any] = json.loads((_DATA / f"{short}.json").read_text())
    root = _tree(content["fields"])
    auto: dict[str, Any] | None = content.get("autoname")
    return Resource(
        token=token,
        source_name=short,
        root=root,
        autoname=None if auto is None else _autoname(auto, content["fields"]),
        no_update=bool(content.get("no_update")),
        delete_before_replace=bool(content.get("delete_before_replace")),
        custom_rules=tuple(content.get("custom_rules", ())),
        sdk_only=tuple(content.get("sdk_only", ())),
    )


@cache
def add_sdk_only(token: str) -> None:
    """Add the properties that only `pulumi_gcp` has to the tree of a resource.

    Importing the SDK takes about half a second, so it happens only if a program uses such a
    property.
    """
    known = resource(token)
    if known is not None:
        for path in known.sdk_only:
            sdk.add_path(token, known.root, path)


def _autoname(data: dict[str, Any], fields: dict[str, Any]) -> Autoname:
    return Autoname(
        field=fields[data["field"]]["pulumi"],
        max_len=data["max_len"],
        separator=data["sep"],
        random_len=data.get("rand_len", 7),
        lowercase=bool(data.get("lowercase")),
    )


def _tree(fields: dict[str, dict[str, Any]]) -> Field:
    root = Field(name="", path="", kind="object", optional=True)
    by_path: dict[str, Field] = {"": root}
    for path in sorted(fields, key=lambda item: item.count(".")):
        data = fields[path]
        if "pulumi" not in data:  # implicit in Pulumi, such as `id`
            continue
        node = _field(path, data)
        by_path[path] = node
        parent, _, own = path.rpartition(".")
        block = by_path[parent].block
        block.children[node.name] = node
        block.by_source_name[own] = node
    return root


def _field(path: str, data: dict[str, Any]) -> Field:
    name = data["pulumi"].rpartition(".")[2].removesuffix("[]")
    rules = {key: data[key] for key in _VALUE_RULES if key in data}
    node = Field(
        name=name,
        path=path,
        required=bool(data.get("required")),
        optional=bool(data.get("optional")),
        computed=bool(data.get("computed")),
        force_new=bool(data.get("force_new")),
        sensitive=bool(data.get("sensitive")),
        default=data.get("pulumi_default", data.get("default")),
        is_overlay_default="pulumi_default" in data,
        deprecated=bool(data.get("deprecated")),
        plan_default=data.get("plan_default"),
        min_items=data.get("min_items", 0),
        max_items=data.get("max_items"),
        conflicts_with=tuple(data.get("conflicts_with", ())),
        exactly_one_of=tuple(data.get("exactly_one_of", ())),
        at_least_one_of=tuple(data.get("at_least_one_of", ())),
        required_with=tuple(data.get("required_with", ())),
        diff_suppress=(*_names(data.get(_SUPPRESS)), *_normalised(data)),
        rules=rules,
    )
    _set_kind(node, data)
    return node


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _normalised(data: dict[str, Any]) -> tuple[str, ...]:
    """Return the comparison of values that the provider rewrites in its state (`state_func`)."""
    if "state_func" not in data:
        return ()
    is_json = "validation.StringIsJSON" in data.get("validator", ())
    return ("same JSON",) if is_json else ("tpgresource.CaseDiffSuppress",)


def _set_kind(node: Field, data: dict[str, Any]) -> None:
    kind, element = data["type"], data.get("elem")
    override = data.get("pulumi_type")
    if override is not None:
        kind = "string" if override == "str" else "asset"
    if kind not in ("list", "set", "map"):
        node.kind = kind
        return
    element_kind = "object" if element == "block" else element or "any"
    if data.get("flat"):
        node.kind = element_kind
        node.max_items, node.min_items = None, 0
        return
    node.kind = kind
    each: dict[str, Any] = node.rules.pop("each", {})
    node.items = Field(
        name=node.name,
        path=node.path,
        kind=element_kind,
        optional=True,
        computed=node.computed,
        force_new=node.force_new,
        diff_suppress=_names(each.get(_SUPPRESS)) or node.diff_suppress,
        rules=each,
    )
