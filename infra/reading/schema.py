"""The JSON schema of a stack file, for completion, hover text and validation in editors."""

import json
from pathlib import Path
from typing import Any

from infra.reading.load import KEY, PROJECT, STACKS
from infra.stack import Platform, Serving

SCHEMA_FILE = STACKS / "schema.json"


def schema_text() -> str:
    """Return the schema as the text of `stacks/schema.json`."""
    return json.dumps(stack_schema(), indent=2, sort_keys=True) + "\n"


def stack_schema() -> dict[str, Any]:
    """Return the schema of a whole stack file, including keys that Pulumi itself writes."""
    platform = Platform.model_json_schema()
    serving = Serving.model_json_schema()
    definitions: dict[str, Any] = platform.pop("$defs") | serving.pop("$defs")
    platform |= _when("platform", {"properties": {"models": False}}, {"required": ["models"]})
    engine_keys = ("encryptedkey", "encryptionsalt", "environment", "secretsprovider")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {**definitions, "Platform": platform, "Serving": serving},
        "title": "A stack of gke-inference",
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {
            **{key: {"description": "Written by Pulumi."} for key in engine_keys},
            "config": {
                "type": "object",
                "required": [f"{PROJECT}:{KEY}"],
                "properties": {
                    f"{PROJECT}:{KEY}": _when(
                        "serving", {"$ref": "#/$defs/Serving"}, {"$ref": "#/$defs/Platform"}
                    )
                },
            },
        },
    }


def _when(layer: str, then: dict[str, Any], otherwise: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the schema that depends on the layer."""
    chosen = {"properties": {"layer": {"const": layer}}, "required": ["layer"]}
    return {"if": chosen, "then": then, "else": otherwise}


def is_current(file: Path = SCHEMA_FILE) -> bool:
    """Return whether the schema file matches the models."""
    return file.exists() and file.read_text(encoding="utf-8") == schema_text()
