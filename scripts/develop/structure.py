"""Figures of the structure of this repository, for a change that is to make it simpler.

    python -m scripts.develop.structure                    every figure, a line each
    python -m scripts.develop.structure TOP BOTTOM…        one walk, with its modules

A walk counts the modules on the chains of imports from TOP, the module that shows a fact, down to
one of BOTTOM, in which the fact is, and the imports on the longest chain: how often the fact is
handed up. A name that a package only passes on counts as imported from the module that defines it.
`--without MODULE` leaves out the chains through a module.
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import grimp

ROOT: Final = Path(__file__).parents[2]
_SHORT_LINES: Final = 40
_FOLDERS: Final = (
    "bench", "components", "infra", "planner", "policies", "scripts", "simulator", "twin",
    "workloads",
)  # fmt: skip


class Walk(NamedTuple):
    """The way of a fact from the module that has it to the one that shows it."""

    title: str
    top: str
    bottoms: tuple[str, ...]
    without: tuple[str, ...] = ()


WALKS: Final = (
    Walk(
        "a price to `cost`",
        "scripts.plan.cost",
        ("gke_inference.catalogue.prices", "gke_inference.catalogue.platform_prices"),
        ("infra.rules",),  # they compare the cost with the budget, and `cost` shows none of it
    ),
    Walk(
        "replicas.max to the autoscaler", "infra.deploy.serving_arguments", ("infra.stack.models",)
    ),
    Walk(
        "a provisioning to the ComputeClass",
        "gke_inference.capacity.compute_class",
        ("gke_inference.catalogue.rung_settings",),
    ),
    Walk(
        "a token limit to the client gate",
        "infra.deploy.clients_arguments",
        ("gke_inference.clients.settings",),
    ),
)


def chains(
    graph: grimp.ImportGraph, top: str, bottoms: tuple[str, ...], without: tuple[str, ...] = ()
) -> tuple[set[str], tuple[str, ...]]:
    """Return the modules between TOP and BOTTOM, and the longest chain of them.

    Args:
        graph: Imports of the repository; not changed.
        top: Module that shows the fact.
        bottoms: Modules in which the fact is.
        without: Modules that no chain may contain.
    """

    @cache
    def reaches(module: str) -> bool:
        return module in bottoms or any(map(reaches, below(module)))

    @cache
    def below(module: str) -> tuple[str, ...]:
        imported = graph.find_modules_directly_imported_by(module)
        return tuple(sorted(each for each in imported if each not in without))

    @cache
    def longest(module: str) -> tuple[str, ...]:
        onward = () if module in bottoms else filter(reaches, below(module))
        return (module, *max(map(longest, onward), key=len, default=()))

    @cache
    def between(module: str) -> frozenset[str]:
        onward = filter(reaches, below(module))
        return frozenset({module}).union(*map(between, onward))

    return set(between(top)), longest(top)


def imports() -> grimp.ImportGraph:
    """Return the imports of the repository that are needed at run time."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    for package in sorted(graph.modules):
        file = _file(package)
        if file.name == "__init__.py":
            _pass_on(graph, package, _imported(file))
    return graph


def _pass_on(graph: grimp.ImportGraph, package: str, passed: dict[tuple[str, str], None]) -> None:
    """Replace imports from a package by imports from the modules that define the names."""
    origins = {name: module for module, name in passed}
    for importer in sorted(graph.find_modules_that_directly_import(package)):
        names = [name for module, name in _imported(_file(importer)) if module == package]
        found = [origins[name] for name in names if name in origins]
        if found and len(found) == len(names):
            graph.remove_import(importer=importer, imported=package)
            for module in found:
                if module in graph.modules:
                    graph.add_import(importer=importer, imported=module)


def _imported(file: Path) -> dict[tuple[str, str], None]:
    """Return what a file imports by name, as module and name."""
    return {
        (node.module or "", alias.name): None
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


@cache
def _file(module: str) -> Path:
    base = ROOT / ("components" if module.startswith("gke_inference") else "")
    path = base.joinpath(*module.split("."))
    file = path.with_suffix(".py")
    return file if file.exists() else path / "__init__.py"


def takes_platform() -> Iterator[str]:
    """Yield the functions that take a whole `Platform`, outside those that read, check or resolve.

    These are the functions of `infra/reading`, `infra/rules` and the `resolve…` ones.
    """
    for file in _sources(("infra", "scripts")):
        path = file.relative_to(ROOT)
        if path.parts[:2] in (("infra", "reading"), ("infra", "rules")):
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("resolve"):
                every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if any(
                    isinstance(each.annotation, ast.Name) and each.annotation.id == "Platform"
                    for each in every
                ):
                    yield f"{path}:{node.lineno} {node.name}"


def short_files() -> Iterator[Path]:
    """Yield the files with source of fewer than 40 lines, without packages' `__init__.py`."""
    for file in _sources(_FOLDERS):
        if file.name != "__init__.py" and len(file.read_bytes().splitlines()) < _SHORT_LINES:
            yield file.relative_to(ROOT)


def _sources(folders: tuple[str, ...]) -> Iterator[Path]:
    """Yield the Python files of folders that are no tests, and neither linked nor vendored."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = set(file.relative_to(ROOT).parts)
            if not parts & {"tests", "vendor", ".venv"} and file.resolve() == file:
                yield file


def main() -> None:
    """Print every figure, or the modules and the longest chain of one walk."""
    parser = argparse.ArgumentParser(prog="structure", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("top", metavar="TOP", nargs="?")
    parser.add_argument("bottoms", metavar="BOTTOM", nargs="*")
    parser.add_argument("--without", metavar="MODULE", action="append", default=[])
    given = parser.parse_args()
    graph = imports()
    lines: list[str] = []
    if given.top is None:
        for walk in WALKS:
            modules, longest = chains(graph, walk.top, walk.bottoms, walk.without)
            lines.append(f"{walk.title}: {len(modules)} modules, {len(longest) - 1} imports")
        lines.append(f"functions that take Platform: {len([*takes_platform()])}")
        lines.append(f"files under {_SHORT_LINES} lines: {len([*short_files()])}")
    else:
        modules, longest = chains(graph, given.top, tuple(given.bottoms), tuple(given.without))
        lines.append(f"{len(modules)} modules, {len(longest) - 1} imports on the longest chain")
        lines += [*sorted(modules), " <- ".join(longest)]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
