"""The table of failed checks: every command that can exit with 1 is in it, and no other."""

import ast
from collections import defaultdict
from pathlib import PurePath

import pytest
from typer.main import get_command_name

from scripts.app import build_app
from scripts.terminal.exit_codes import CHECKS
from twin.host.paths import REPOSITORY

FAILS = ("CHECK_FAILED", "CheckFailedError")
DEFINITIONS = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef)
DEFINED_IN = ("scripts.terminal.exit_codes", "scripts.terminal.console")


def commands(app, prefix: tuple[str, ...] = ()):
    """Yield each command's words and the function that runs it."""
    for group in app.registered_groups:
        inside = group.typer_instance
        words = (*prefix, group.name)
        if inside.registered_callback and inside.registered_callback.callback is not None:
            yield words, inside.registered_callback.callback
        yield from commands(inside, words)
    for command in app.registered_commands:
        name = command.name or get_command_name(command.callback.__name__)
        yield (*prefix, name), command.callback


def module_name(file):
    path = PurePath(file).relative_to(REPOSITORY).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def uses():
    """What each function or class of `scripts` names: (module, name) by (module, name)."""
    edges = defaultdict(set)
    for file in sorted((REPOSITORY / "scripts").rglob("*.py")):
        module = module_name(file)
        tree = ast.parse(file.read_text())
        names = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        defined = [node for node in tree.body if isinstance(node, DEFINITIONS)]
        names |= {node.name: (module, node.name) for node in defined}
        for node in defined:
            edges[module, node.name] = set(used(node, names))
    return edges


def used(node, names):
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in names:
            yield names[part.id]
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            package, name = names.get(part.value.id, ("", ""))
            yield f"{package}.{name}", part.attr


def reached(uses, function):
    """Return what a function names, directly or through others of `scripts`."""
    seen, left = set(), [(function.__module__, function.__name__)]
    while left:
        place = left.pop()
        if place not in seen:
            seen.add(place)
            left.extend(uses.get(place, ()))
    return seen


def test_a_command_that_can_exit_with_1_has_its_reason_in_the_table_and_no_other_has(uses):
    listed = {tuple(word for word in key.split() if word[0] != "-") for key in CHECKS}
    failing = {
        words
        for words, function in commands(build_app())
        if any(name in FAILS for _, name in reached(uses, function))
    }
    unlisted = {words for words in failing if not any(words[: len(key)] == key for key in listed)}
    assert sorted(unlisted) == []
    unused = {key for key in listed if not any(words[: len(key)] == key for words in failing)}
    assert sorted(unused) == []


def test_each_place_that_ends_with_1_belongs_to_a_command(uses):
    places = {
        place
        for place, named in uses.items()
        if any(name in FAILS for _, name in named) and place[0] not in DEFINED_IN
    }
    assert len(places) > 20
    of_commands = set().union(*(reached(uses, each) for _, each in commands(build_app())))
    assert sorted(places - of_commands) == []
