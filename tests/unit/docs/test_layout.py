"""The house: folders and files import one way."""

import tomllib
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from scripts.develop.structure import chains, takes_platform
from twin.host.paths import REPOSITORY


@pytest.fixture(scope="module")
def linter():
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]


@pytest.fixture(scope="module")
def graph(linter):
    return grimp.build_graph(*linter["root_packages"], cache_dir=None)


def test_a_new_folder_has_to_be_given_a_layer(linter):
    inside = [contract for contract in linter["contracts"] if "containers" in contract]
    assert len(inside) == 8
    assert [each["name"] for each in inside if not each.get("exhaustive")] == []


def test_folders_import_each_other_in_one_direction_only(graph):
    packages = {module.rpartition(".")[0] for module in graph.modules}
    imports = defaultdict(set)
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            ends = [
                module if module in packages else module.rpartition(".")[0]
                for module in (importer, imported)
            ]
            if ends[0] != ends[1]:
                imports[ends[0]].add(ends[1])
    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        pytest.fail(f"folders in a circle: {' -> '.join(error.args[1])}")
    assert order.index("gke_inference.catalogue") < order.index("infra.stack")


def test_no_file_imports_itself_through_others_not_even_for_its_types(graph):
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        pytest.fail(f"files in a circle: {' -> '.join(error.args[1])}")
    only_for_types = ("gke_inference.catalogue.prices", "gke_inference.catalogue.rungs")
    assert graph.direct_import_exists(importer=only_for_types[0], imported=only_for_types[1])
    assert order.index(only_for_types[1]) < order.index(only_for_types[0])


def test_a_walk_has_the_modules_of_every_chain_and_the_longest_one():
    graph = grimp.ImportGraph()
    for importer, imported in ["ab", "bd", "ac", "ce", "ed", "ax", "xd", "ay"]:
        graph.add_import(importer=importer, imported=imported)
    modules, longest = chains(graph, "a", ("d",), ("x",))
    assert modules == set("abcde")
    assert longest == tuple("aced")


def test_functions_take_the_record_that_they_need_and_seldom_the_whole_stack():
    assert len([*takes_platform()]) <= 60
