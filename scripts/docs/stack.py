"""The reference of stack files, from their JSON schema."""

import json
from typing import Any

from gke_inference.settings.fields import (
    PATTERN_WORDS,
)
from twin.host.paths import REPOSITORY

_SCHEMA = REPOSITORY / "stacks" / "schema.json"
_ROOT = "Platform"
_SIGNS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "minItems": "entries ≥",
    "maxItems": "entries ≤",
    "minProperties": "entries ≥",
    "maxLength": "characters ≤",
}


def _named(schema: dict[str, Any], spec: dict[str, Any]) -> str | None:
    """Return the text of a reference: the values of an enumeration, otherwise a link."""
    if "$ref" not in spec:
        return None
    name = str(spec["$ref"]).rsplit("/", 1)[1]
    values: list[str] | None = schema["$defs"][name].get("enum")
    if values is None:
        return f"[{name}](#{name.lower()})"
    return " or ".join(f"`{value}`" for value in values)


def _values(spec: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a mapping's values, or None if it is not a mapping."""
    for found in (*spec.get("patternProperties", {}).values(), spec.get("additionalProperties")):
        if isinstance(found, dict):
            return found
    return None


def _type(schema: dict[str, Any], spec: dict[str, Any]) -> str:
    named = _named(schema, spec)
    if named is not None:
        return named
    if "anyOf" in spec:
        kinds = [_type(schema, one) for one in spec["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    if "enum" in spec or "const" in spec:
        return " or ".join(f"`{value}`" for value in spec.get("enum", [spec.get("const")]))
    if spec.get("type") == "array":
        return f"list of {_type(schema, spec.get('items', {}))}"
    values = _values(spec)
    if values is not None:
        return f"mapping of name to {_type(schema, values)}"
    return {"string": "text", "integer": "whole number"}.get(
        str(spec.get("type")), str(spec.get("type", "any"))
    )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _limits(spec: dict[str, Any]) -> str:
    inner: list[dict[str, Any]] = [
        one for one in spec.get("anyOf", []) if one.get("type") != "null"
    ]
    seen: dict[str, Any] = {**(inner[0] if len(inner) == 1 else {}), **spec}
    parts = [f"{sign} {_plain(seen[key])}" for key, sign in _SIGNS.items() if key in seen]
    pattern = seen.get("pattern") or seen.get("items", {}).get("pattern")
    if pattern is not None:
        parts.append(PATTERN_WORDS.get(pattern, f"matches `{pattern}`"))
    default = seen.get("default")
    if not isinstance(default, (list, dict)) and default is not None:
        parts.append(f"default `{_plain(default)}`")
    return "; ".join(parts).replace("|", "\\|")


def _section(schema: dict[str, Any], name: str, spec: dict[str, Any]) -> list[str]:
    description = " ".join(str(spec.get("description", "")).split())
    lines = [
        f"## {name}",
        "",
        description,
        "",
        "| key | type | limits | description |",
        "|---|---|---|---|",
    ]
    required: list[str] = spec.get("required", [])
    properties: dict[str, Any] = spec.get("properties", {})
    for key in sorted(properties, key=lambda key: (key not in required, key)):
        value = properties[key]
        text = " ".join(str(value.get("description", "")).split()).replace("|", "\\|")
        mark = "**required** " if key in required else ""
        lines.append(f"| `{key}` | {_type(schema, value)} | {_limits(value)} | {mark}{text} |")
    return [*lines, ""]


def stack_page() -> str:
    """Return the page: a section for each type of a stack file, the root first."""
    schema: dict[str, Any] = json.loads(_SCHEMA.read_text())
    lines = [
        "# Stack files",
        "",
        "A stack is one YAML file, `stacks/Pulumi.<environment>.yaml`. Its settings are under",
        "`config:`, `gke-inference:platform:`, and have the type",
        f"[{_ROOT}](#{_ROOT.lower()}). Every key is checked before anything changes; an invalid",
        "one is reported in one message with the field, the rule and the value. Names consist of",
        "lowercase letters, digits and hyphens, and start with a letter.",
        "",
        "Examples: [capacity](../capacity.md), [storage](../storage.md), and the four files in",
        "[stacks](../../stacks).",
        "",
    ]
    definitions: dict[str, Any] = schema.get("$defs", {})
    for name in sorted(definitions, key=lambda name: (name != _ROOT, name)):
        if "properties" in definitions[name]:
            lines += _section(schema, name, definitions[name])
    return "\n".join(lines)
