"""Objects against the schemas their CRDs declare, field by field: an unknown field is an error."""

import functools
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from twin import toolchain

ROOT = Path(__file__).parents[3]
_UPSTREAM = ("crds/gateway", "crds/inference", "crds/jobset", "crds/kueue", "crds/lws", "crds/ray")


def check(obj: dict[str, Any]) -> None:
    """Asserts that an object of a custom kind is what its CRD declares."""
    schema = _schemas(obj["kind"]).get(obj["apiVersion"])
    if schema is None and not _has_upstream():
        pytest.skip("the upstream CRDs are not built yet: run `make tools`")
    assert schema is not None, f"no CRD serves {obj['apiVersion']} {obj['kind']}"
    validator = jsonschema.Draft202012Validator(schema)
    faults = [
        f"{'.'.join(map(str, fault.absolute_path))}: {fault.message}"
        for fault in validator.iter_errors(obj)
    ]
    assert not faults, f"{obj['kind']} {obj['metadata']['name']}: {'; '.join(faults)}"


@functools.cache
def _schemas(kind: str) -> dict[str, dict[str, Any]]:
    """Returns the schemas of a kind by API version; reads only files that name it."""
    found: dict[str, dict[str, Any]] = {}
    for folder in _folders():
        for path in sorted(folder.glob("*.yaml")):
            text = path.read_text(encoding="utf-8")
            if f"kind: {kind}\n" not in text:
                continue
            for document in yaml.load_all(text, yaml.CSafeLoader):
                if document and document.get("kind") == "CustomResourceDefinition":
                    found |= _served(document["spec"], kind)
    return found


def _served(spec: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    if spec["names"]["kind"] != kind:
        return {}
    return {
        f"{spec['group']}/{version['name']}": _strict(
            version["schema"]["openAPIV3Schema"], is_root=True
        )
        for version in spec["versions"]
    }


def _strict(node: dict[str, Any], *, is_root: bool = False) -> dict[str, Any]:
    """Returns a structural schema in which fields it does not name are refused."""
    schema = {key: body for key, body in node.items() if key not in ("default", "format")}
    if str(node.get("pattern", "")).startswith("^(?i)"):  # Go takes flags anywhere
        schema["pattern"] = f"(?i)^{node['pattern'].removeprefix('^(?i)')}"
    if node.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    if "properties" in node:
        schema["properties"] = {name: _strict(body) for name, body in node["properties"].items()}
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            schema["additionalProperties"] = False
    elif isinstance(node.get("additionalProperties"), dict):
        schema["additionalProperties"] = _strict(node["additionalProperties"])
    if "items" in node:
        schema["items"] = _strict(node["items"])
    if is_root:
        schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _folders() -> list[Path]:
    cluster = ROOT / "twin" / "cluster"
    folders = [cluster / "controlplane" / "crds", cluster / "delivery" / "crds"]
    if _has_upstream():
        folders += [toolchain.share(name) for name in _UPSTREAM]
    return folders


@functools.cache
def _has_upstream() -> bool:
    try:
        for name in _UPSTREAM:
            toolchain.share(name)
    except toolchain.ToolError:
        return False
    return True
