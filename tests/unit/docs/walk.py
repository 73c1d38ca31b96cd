"""`python -m tests.unit.docs.walk TOP BOTTOM…`: how far a fact is from the place that shows it.

Counts the modules on the chains of imports from TOP down to one of BOTTOM, and the imports on the
longest of them, which is how often the fact is handed up. `--without MODULE` leaves out the chains
through a module. The walk of a price to a line of `cost`:

    python -m tests.unit.docs.walk scripts.plan.cost gke_inference.catalogue.prices \
      gke_inference.catalogue.platform_prices --without infra.rules
"""

import argparse
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp

_PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def chains(
    graph: grimp.ImportGraph, top: str, bottoms: list[str], without: list[str]
) -> tuple[set[str], tuple[str, ...]]:
    """Return the modules between TOP and BOTTOM, and the longest chain of them.

    Args:
        graph: Imports of the repository.
        top: Module that shows the fact.
        bottoms: Modules in which the fact is.
        without: Modules that no chain may contain.
    """
    for module in without:
        graph.remove_module(module)
    below = graph.find_upstream_modules(top) | {top}
    above = {each for end in bottoms for each in (end, *graph.find_downstream_modules(end))}

    @cache
    def longest(module: str) -> tuple[str, ...]:
        inside = graph.find_modules_directly_imported_by(module) & below & above
        return (module, *max(map(longest, sorted(inside)), key=len, default=()))

    return below & above, longest(top)


def main() -> None:
    """Print the count, the modules and the longest chain."""
    parser = argparse.ArgumentParser(prog="walk", description="How far a fact is from its reader.")
    parser.add_argument("top", metavar="TOP")
    parser.add_argument("bottoms", metavar="BOTTOM", nargs="+")
    parser.add_argument("--without", metavar="MODULE", action="append", default=[])
    given = parser.parse_args()
    packages = tomllib.loads(_PYPROJECT.read_text("utf-8"))["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    modules, longest = chains(graph, given.top, given.bottoms, given.without)
    title = f"{len(modules)} modules, {len(longest) - 1} imports on the longest chain"
    sys.stdout.write("\n".join([title, *sorted(modules), " <- ".join(longest), ""]))


if __name__ == "__main__":
    main()
