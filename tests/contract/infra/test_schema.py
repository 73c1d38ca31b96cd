"""The schema of stack files: current, described, and true of the stacks of the repository."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from infra.reading.load import STACKS
from infra.reading.schema import SCHEMA_FILE, is_current, stack_schema
from tests.contract.infra.broken_stacks import broken_stacks
from tests.shipped_stacks import EXAMPLES

# What the schema alone finds: a fault in one field, not between two.
IN_ONE_FIELD = ("text-for-a-number", "typo-in-a-field", "typo-in-a-word", "unknown-accelerator")


@cache
def schema() -> dict[str, Any]:
    """Return the schema, which takes a second to make, for reading."""
    return stack_schema()


def refusals(document: Any) -> list[str]:
    """Return what the schema says against a stack file."""
    validator = jsonschema.Draft202012Validator(schema())
    return [error.message for error in validator.iter_errors(document)]


def test_the_schema_file_is_what_the_models_say() -> None:
    assert is_current(), "stacks/schema.json is out of date: run 'gke-inference schema'"
    assert json.loads(SCHEMA_FILE.read_text()) == schema()


def test_a_schema_file_that_is_missing_or_old_is_not_current(tmp_path: Path) -> None:
    old = tmp_path / "schema.json"
    assert not is_current(old)
    old.write_text("{}")
    assert not is_current(old)


def test_the_schema_is_one_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", ["local", "dev", "staging", "prod"])
def test_the_stacks_of_the_repository_follow_the_schema(name: str) -> None:
    text = (STACKS / f"Pulumi.{name}.yaml").read_text()
    assert refusals(yaml.load(text, yaml.CSafeLoader)) == []
    assert text.startswith("# yaml-language-server: $schema=./schema.json\n")


@pytest.mark.parametrize("name", ["shared", "search", "ads"])
def test_a_platform_and_its_serving_stacks_follow_the_schema(name: str) -> None:
    document = yaml.load((EXAMPLES / "teams" / f"Pulumi.{name}.yaml").read_text(), yaml.CSafeLoader)
    assert refusals(document) == []


def test_an_editor_marks_what_a_layer_has_no_place_for() -> None:
    documents = {
        name: yaml.load((EXAMPLES / "teams" / f"Pulumi.{name}.yaml").read_text(), yaml.CSafeLoader)
        for name in ("shared", "search")
    }
    serving = documents["search"]["config"]["gke-inference:platform"]
    documents["shared"]["config"]["gke-inference:platform"]["models"] = serving["models"]
    serving["regions"] = {}
    assert all(map(refusals, documents.values()))


@pytest.mark.parametrize("broken", [b for b in broken_stacks() if b.name in IN_ONE_FIELD])
def test_an_editor_with_the_schema_marks_a_fault_in_one_field(broken: Any) -> None:
    assert refusals(yaml.load(broken.text(), yaml.CSafeLoader))


def test_every_field_says_what_it_is_for() -> None:
    for name, part in schema()["$defs"].items():
        for field, body in part.get("properties", {}).items():
            assert body.get("description"), f"{name}.{field} has no description"


def test_what_the_engine_writes_into_a_stack_file_is_allowed() -> None:
    document = yaml.load((STACKS / "Pulumi.local.yaml").read_text(), yaml.CSafeLoader)
    written = {"encryptionsalt": "v1:x", "secretsprovider": "gcpkms://x", "encryptedkey": "y"}
    assert refusals({**document, **written}) == []
