"""The twin's provider on every resource that a shipped stack creates on Google Cloud."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.infra.cloud import Deployed
from tests.contract.infra.registered import registered
from tests.contract.infra.test_shipped_stacks import FILES, title
from twin.providers.gcp.checks.defaults import fill_in, without_lists
from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.resources.computed_outputs import created
from twin.providers.gcp.schema import resource, sdk, tokens

REPOSITORY = Path(__file__).parents[3]
PROGRAMS = [REPOSITORY / folder for folder in ("components", "infra", "docs/examples")]
SETTINGS = {"project": "acme", "region": "us-central1", "zone": "us-central1-a"}


def differences(token: str, inputs: dict[str, Any]) -> list[str]:
    """Return what a second `up` of an applied resource would change."""
    known = resource(token)
    assert known is not None, token
    given = {**inputs, "name": inputs.get("name", "named")} if known.autoname else inputs
    filled = without_lists(fill_in(known, given))
    placed = {"location": "us-central1", **filled} if "location" in known.fields else filled
    outputs = created(known, placed, f"projects/acme/{token}", "urn", SETTINGS)
    return [f"{token}: {each.path}" for each in changes(known, outputs, filled)]


@pytest.mark.parametrize("file", FILES, ids=title)
def test_an_applied_stack_differs_in_nothing(deployed: Deployed, file: Path) -> None:
    made = [each for each in registered(file, deployed) if each.type.startswith("gcp:")]
    assert [path for each in made for path in differences(each.type, each.inputs)] == []


def created_types(file: Path) -> Iterator[str]:
    """Yield the token of each resource type of pulumi_gcp that a program creates by its class."""
    text = file.read_text()
    if "pulumi_gcp" not in text:
        return
    nodes = list(ast.walk(ast.parse(text)))
    modules = {
        name.asname or name.name: f"pulumi_gcp.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "pulumi_gcp"
        for name in node.names
    }
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            token = sdk.token_of(modules.get(called.value.id, ""), called.attr)
            if token is not None:
                yield token


def test_every_type_that_a_program_creates_has_constraints() -> None:
    files = [file for folder in PROGRAMS for file in sorted(folder.rglob("*.py"))]
    created_by_programs = {token for file in files for token in created_types(file)}
    assert len(created_by_programs) > 50
    assert created_by_programs - set(tokens()) == set()
