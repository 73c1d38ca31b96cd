"""The reference of components, from the plugin's golden schema."""

import json
from typing import Any

from twin.paths import REPOSITORY

_SCHEMA = REPOSITORY / "tests" / "golden" / "schema.json"


def _type(spec: dict[str, Any]) -> str:
    if "$ref" in spec:
        return f"`{spec['$ref'].rsplit('/', 1)[1].rsplit(':', 1)[1]}`"
    if spec.get("type") == "array":
        return f"list of {_type(spec['items'])}"
    if spec.get("type") == "object":
        return f"map of {_type(spec['additionalProperties'])}"
    return str(spec.get("type", "any"))


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _table(properties: dict[str, Any], required: list[str]) -> list[str]:
    lines = ["| name | type | | |", "|---|---|---|---|"]
    ordered = sorted(properties, key=lambda name: (name not in required, name))
    for name in ordered:
        mark = "required" if name in required else ""
        spec = properties[name]
        lines.append(f"| `{name}` | {_type(spec)} | {mark} | {_line(spec.get('description'))} |")
    return [*lines, ""]


def components_page() -> str:
    """Return the page: a section for each component and each type of its arguments."""
    schema: dict[str, Any] = json.loads(_SCHEMA.read_text())
    lines = [
        "# Components",
        "",
        "The package `gke_inference`, importable in Python and, through the plugin, in every",
        "Pulumi language. Names are those of the plugin's schema; Python writes snake_case.",
        "",
    ]
    for token, spec in sorted(schema["resources"].items()):
        lines += [f"## {token.rsplit(':', 1)[1]}", "", (spec.get("description") or "").strip(), ""]
        lines += ["Inputs", ""]
        lines += _table(spec.get("inputProperties", {}), spec.get("requiredInputs", []))
        lines += ["Outputs", ""]
        lines += _table(spec.get("properties", {}), [])
    lines += ["# Types", ""]
    for token, spec in sorted(schema.get("types", {}).items()):
        lines += [f"## {token.rsplit(':', 1)[1]}", "", (spec.get("description") or "").strip(), ""]
        lines += _table(spec.get("properties", {}), spec.get("required", []))
    return "\n".join(lines)
