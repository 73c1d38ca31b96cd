"""The two kinds that the endpoint picker watches but GKE does not install with InferencePool.

Without them, a picker does not start and an InferenceObjective cannot be created. Each line of the
picker has its own API group for them. Fields: gateway-api-inference-extension v1.5.0 and
llm-d-router v0.10.0, config/crd/bases, which differ in nothing but the group.
"""

from typing import Any

from gke_inference.base.custom_definitions import definition
from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.pickers import GIE, picker_line
from gke_inference.catalogue.versions import api

# Without `x-kubernetes-…` keys: Pulumi spells those differently than the API server does.
_CONDITION: Manifest = {
    "properties": {
        "lastTransitionTime": {"format": "date-time", "type": "string"},
        "message": {"type": "string"},
        "observedGeneration": {"format": "int64", "type": "integer"},
        "reason": {"type": "string"},
        "status": {"enum": ["True", "False", "Unknown"], "type": "string"},
        "type": {"type": "string"},
    },
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "type": "object",
}
_STATUS: Manifest = {
    "properties": {"conditions": {"items": _CONDITION, "type": "array"}},
    "type": "object",
}


def definitions(*lines: str) -> dict[str, Manifest]:
    """Return the definitions by role, such as `objective` and `rewrite`.

    Args:
        lines: Lines of the picker. Default: `gie`.
    """
    return {
        role if line == GIE else f"{line}-{role}": made
        for line in dict.fromkeys(lines or (GIE,))
        for role, made in _of_line(line).items()
    }


def _of_line(line: str) -> dict[str, Manifest]:
    kinds = picker_line(line).apis
    return {
        "objective": _definition(
            kinds["objective"],
            "inferenceobjectives",
            {"poolRef": _pool_reference(), "priority": {"type": "integer"}},
            ["poolRef"],
        ),
        "rewrite": _definition(
            kinds["rewrite"],
            "inferencemodelrewrites",
            {"poolRef": _pool_reference(), "rules": _rules()},
            ["poolRef", "rules"],
        ),
    }


def _definition(
    lock_name: str, plural: str, fields: dict[str, Any], required: list[str]
) -> Manifest:
    spec: Manifest = {"properties": fields, "required": required, "type": "object"}
    return definition(lock_name, plural, "endpoint-picker", spec=spec, status=_STATUS)


def _pool_reference() -> Manifest:
    pool = api("inference_pool")
    return {
        "properties": {
            "group": {"default": pool.group, "maxLength": 253, "type": "string"},
            "kind": {"default": pool.kind, "maxLength": 63, "minLength": 1, "type": "string"},
            "name": {"maxLength": 253, "minLength": 1, "type": "string"},
        },
        "required": ["name"],
        "type": "object",
    }


def _rules() -> Manifest:
    model: Manifest = {
        "properties": {
            "type": {"default": "Exact", "enum": ["Exact"], "type": "string"},
            "value": {"minLength": 1, "type": "string"},
        },
        "required": ["value"],
        "type": "object",
    }
    match: Manifest = {"properties": {"model": model}, "required": ["model"], "type": "object"}
    weight = {"format": "int32", "maximum": 1_000_000, "minimum": 1, "type": "integer"}
    target: Manifest = {
        "properties": {"modelRewrite": {"type": "string"}, "weight": weight},
        "required": ["modelRewrite"],
        "type": "object",
    }
    rule: Manifest = {
        "properties": {
            "matches": {"items": match, "type": "array"},
            "targets": {"items": target, "minItems": 1, "type": "array"},
        },
        "type": "object",
    }
    return {"items": rule, "type": "array"}
