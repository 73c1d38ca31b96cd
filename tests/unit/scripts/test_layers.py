"""Commands stand side by side: what two of them share is in a module that is not a command."""

import ast
from pathlib import Path

import pytest

from scripts.app import COMMANDS, module_of
from twin.host.paths import REPOSITORY

FOLDER = REPOSITORY / "scripts"
BENCH = [file for file in (REPOSITORY / "bench").rglob("*.py") if "tests" not in file.parts]
MODULES = sorted([*FOLDER.rglob("*.py"), *BENCH])


def imported(file: Path) -> set[str]:
    """Return the modules of `scripts` that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.startswith("scripts.")}


def place(file: Path) -> str:
    """Return a file's path below `scripts`, or below the repository."""
    return str(file.relative_to(FOLDER if file.is_relative_to(FOLDER) else REPOSITORY))


@pytest.mark.parametrize("file", MODULES, ids=place)
def test_no_module_imports_a_command(file: Path) -> None:
    commands = {f"scripts.{module_of(name)}" for name in COMMANDS}
    assert imported(file) & commands == set()


def test_every_command_has_its_own_module() -> None:
    files = {name: FOLDER.joinpath(*module_of(name).split(".")) for name in COMMANDS}
    assert [name for name, file in files.items() if not file.with_suffix(".py").exists()] == []
