"""Commands stand side by side: what two of them share is in a module that is not a command."""

import ast
from pathlib import Path

import pytest

from scripts.app import COMMANDS
from twin.host.paths import REPOSITORY

FOLDER = REPOSITORY / "scripts"
MODULES = sorted(FOLDER.rglob("*.py"))


def imported(file: Path) -> set[str]:
    """Return the modules of `scripts` that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.startswith("scripts.")}


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_no_module_imports_a_command(file: Path) -> None:
    commands = {f"scripts.{name}" for name in COMMANDS}
    assert imported(file) & commands == set()


def test_every_command_has_its_own_module() -> None:
    assert [name for name in COMMANDS if not (FOLDER / f"{name}.py").exists()] == []
