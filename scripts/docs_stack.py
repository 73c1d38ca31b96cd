"""The reference of stack files, from their JSON schema."""

import json
from typing import Any

from twin.paths import REPOSITORY

_SCHEMA = REPOSITORY / "stacks" / "schema.json"


def _resolve(schema: dict[str, Any], spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return (name, definition) a property points to; ("", spec) where it points to none."""
    reference = spec.get("$ref")
    if reference is None:
        return "", spec
    name = str(reference).rsplit("/", 1)[1]
    return name, schema["$defs"][name]


def _type(schema: dict[str, Any], spec: dict[str, Any]) -> str:
    name, found = _resolve(schema, spec)
    if name:
        values = found.get("enum")
        return (
            ", ".join(f"`{value}`" for value in values) if values else f"[{name}](#{name.lower()})"
        )
    if "anyOf" in spec:
        kinds = [_type(schema, one) for one in spec["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    if "enum" in spec or "const" in spec:
        return ", ".join(f"`{value}`" for value in spec.get("enum", [spec.get("const")]))
    if spec.get("type") == "array":
        return f"list of {_type(schema, spec.get('items', {}))}"
    if spec.get("type") == "object" and isinstance(spec.get("additionalProperties"), dict):
        return f"map of {_type(schema, spec['additionalProperties'])}"
    return str(spec.get("type", "any"))


def _limits(spec: dict[str, Any]) -> str:
    names = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "pattern": "matches"}
    parts = [f"{sign} `{spec[key]}`" for key, sign in names.items() if key in spec]
    if "default" in spec and spec["default"] not in (None, [], {}):
        parts.append(f"default `{json.dumps(spec['default'])}`")
    return ", ".join(parts).replace("|", "\\|")


def _section(schema: dict[str, Any], name: str, spec: dict[str, Any]) -> list[str]:
    description = " ".join(str(spec.get("description", "")).split())
    lines = [f"## {name}", "", description, "", "| name | type | limits | |", "|---|---|---|---|"]
    required = spec.get("required", [])
    for key, value in spec.get("properties", {}).items():
        text = " ".join(str(value.get("description", "")).split()).replace("|", "\\|")
        mark = "**required** " if key in required else ""
        lines.append(f"| `{key}` | {_type(schema, value)} | {_limits(value)} | {mark}{text} |")
    return [*lines, ""]


def stack_page() -> str:
    """Return the page: a section for each part of a stack file."""
    schema: dict[str, Any] = json.loads(_SCHEMA.read_text())
    lines = [
        "# Stack files",
        "",
        "A stack is one YAML file, `stacks/Pulumi.<environment>.yaml`. Every key is checked before",
        "anything changes; a wrong one is one message with the field, the rule and the value.",
        "",
    ]
    definitions: dict[str, Any] = schema.get("$defs", {})
    for name, spec in definitions.items():
        if "properties" in spec:
            lines += _section(schema, name, spec)
    return "\n".join(lines)
