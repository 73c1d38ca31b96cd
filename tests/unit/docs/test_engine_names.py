"""Modules ask the record of an engine, and do not name one; its facts are in its folder."""

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from gke_inference.catalogue.engine_tables import FOLDER, tables
from gke_inference.catalogue.engines import engine, engine_names, retired
from tests.members import MEMBERS

ROOT = Path(__file__).parents[3]
_FILES = ("engine.yaml", "flags.json", "owned_flags.yaml")
_WORDS = {f"{name}{end}" for name in engine_names() for end in ("", "_cpu", "_gpu", "_tpu")}
_QUOTED = re.compile(rf"""["'](?:{"|".join(_WORDS)})["']""")
ALLOWED = {
    "bench/*.py": "compares measurements of certain engines",
    "components/gke_inference/personal/*.py": "trains with the image server, and in its image",
    "components/gke_inference/sizing/architectures.py": "a kind of architecture of the same name",
    "planner/speed/errors.py": "titles of published measurements, some of which are of no server",
    "policies/rules/*.py": "the policy pack imports no record of engines, to start fast",
    "simulator/dialects/*.py": "simulated servers, each in files of its own, and their registry",
    "simulator/engine/*.py": "the simulated vLLM, which the other servers are made of",
    "simulator/server/*.py": "as above",
    "twin/cluster/agent/launching/*.py": "which server a container starts: one entry for each",
    "twin/engines/*.py": "real servers to compare with, and the parser of vLLM",
    "workloads/diffusion/*.py": "the image server itself",
    "workloads/engine/*.py": "the launcher, with a file for each engine; servers mount it, so that "
    "a change restarts all of them",
}
"""Files that may name an engine, and why."""


def named(path: Path) -> set[str]:
    """Return the strings of a module that are the name of an engine or of its image."""
    text = path.read_text(encoding="utf-8")
    if not _QUOTED.search(text):
        return set()
    nodes = ast.walk(ast.parse(text))
    return _WORDS & {node.value for node in nodes if isinstance(node, ast.Constant)}


@pytest.fixture(scope="module")
def naming() -> dict[str, set[str]]:
    """Return the modules that name an engine, with the names."""
    found = {
        path.relative_to(ROOT).as_posix(): named(path)
        for member in MEMBERS
        for path in (ROOT / member).rglob("*.py")
        if not {"tests", "vendor"} & {*path.relative_to(ROOT).parts}
    }
    return {path: names for path, names in found.items() if names}


def test_no_module_names_an_engine_without_a_reason(naming: dict[str, set[str]]):
    unexplained = {
        path: names
        for path, names in naming.items()
        if not any(fnmatch(path, pattern) for pattern in ALLOWED)
    }
    assert unexplained == {}


def test_every_exception_names_one(naming: dict[str, set[str]]):
    unused = [each for each in ALLOWED if not any(fnmatch(path, each) for path in naming)]
    assert unused == []


def test_every_folder_is_an_engine_and_has_what_all_engines_have():
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert set(engine_names()) <= folders <= {*engine_names(), *retired()}
    for name in engine_names():
        assert [file for file in _FILES if not (FOLDER / name / file).is_file()] == []


def test_a_file_of_facts_has_no_field_that_nothing_reads():
    known = {"hardware", "metrics", *engine(engine_names()[0]).__dataclass_fields__}
    for name, entry in tables("engine.yaml").items():
        assert set(entry) - known == set(), name
