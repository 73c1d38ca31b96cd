"""The reference of components, from the plugin's golden schema."""

import inspect
import json
from typing import Any

from twin.host.paths import REPOSITORY

_ANY = "Any"
"""Name of Pulumi's own type for a value of any type."""
_SCHEMA = REPOSITORY / "tests" / "golden" / "schema.json"


def _type(spec: dict[str, Any]) -> str:
    if "$ref" in spec:
        name = str(spec["$ref"]).rsplit("/", 1)[1].rsplit(":", 1)[-1]
        if name == _ANY:
            return "any"
        return f"[{name}](#{name.lower()})"
    if spec.get("type") == "array":
        return f"list of {_type(spec['items'])}"
    if spec.get("type") == "object":
        return f"map of {_type(spec['additionalProperties'])}"
    return str(spec.get("type", "any"))


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _table(properties: dict[str, Any], required: list[str]) -> list[str]:
    lines = ["| name | type | description |", "|---|---|---|"]
    ordered = sorted(properties, key=lambda name: (name not in required, name))
    for name in ordered:
        mark = "**required** " if name in required else ""
        spec = properties[name]
        lines.append(f"| `{name}` | {_type(spec)} | {mark}{_line(spec.get('description'))} |")
    return [*lines, ""]


def _head(token: str, spec: dict[str, Any]) -> list[str]:
    # the schema has docstrings as in the source, indented from the second line on
    text = inspect.cleandoc(spec.get("description") or "")
    return [f"### {token.rsplit(':', 1)[1]}", "", *([text, ""] if text else [])]


def components_page() -> str:
    """Return the page: a section for each component and each type of its arguments."""
    schema: dict[str, Any] = json.loads(_SCHEMA.read_text())
    names = [token.rsplit(":", 1)[1] for token in sorted(schema["resources"])]
    lines = [
        "# Components",
        "",
        "Components of the package `gke_inference`, for Python and, through the plugin, for every",
        "Pulumi language. Names are those of the plugin's schema; Python uses snake_case, so",
        "`nodeServiceAccount` is `node_service_account`. For a program that imports them, see",
        "[examples/import-components](../examples/import-components).",
        "",
        " · ".join(f"[{name}](#{name.lower()})" for name in names),
        "",
        "## Components of the package",
        "",
    ]
    for token, spec in sorted(schema["resources"].items()):
        lines += _head(token, spec)
        lines += ["Inputs", ""]
        lines += _table(spec.get("inputProperties", {}), spec.get("requiredInputs", []))
        lines += ["Outputs", ""]
        lines += _table(spec.get("properties", {}), [])
    lines += ["## Input types", ""]
    for token, spec in sorted(schema.get("types", {}).items()):
        lines += _head(token, spec)
        lines += _table(spec.get("properties", {}), spec.get("required", []))
    return "\n".join(lines)
