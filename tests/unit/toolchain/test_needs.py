"""Which tools a command or a part of a stack waits for."""

import re

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.operate.stack_tools import purposes_of
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import REPOSITORY
from twin.toolchain import ToolError, modules, named, needed_by, recipe


def names(*purposes):
    return [module.name for module in needed_by(*purposes)]


def test_a_preview_waits_for_the_pulumi_cli_alone():
    assert names("engine") == ["pulumi"]


def test_a_deployment_waits_for_no_tool_of_monitoring_images_or_linting():
    assert names("engine", "cluster") == [
        "pulumi",
        "kubernetes",
        "etcd",
        "kwok",
        "crds",
        "epp",
        "body-router",
        "fake-gcs-server",
    ]


def test_every_tool_is_needed_by_something():
    needed = {name for names in recipe()["needs"].values() for name in names}
    assert needed == set(modules())


def test_the_page_of_tools_names_each_tool_and_those_that_are_always_built():
    page = (REPOSITORY / "docs" / "tools.md").read_text()
    table = page.partition("## Tools by command")[2].partition("\n## ")[0]
    named_in_table = set(re.findall(r"`([a-z-]+)`", table))
    assert set(modules()) - named_in_table == {"pulumi"}, "the table calls it the Pulumi CLI"
    always_built = {
        name
        for name, module in modules().items()
        if module.binaries and "releases" not in module.spec
    }
    sentence = page.partition("contain Go code of this repository")[2].partition(". ")[0]
    assert set(re.findall(r"`([a-z-]+)`", sentence)) == always_built


def test_a_tool_of_two_purposes_is_listed_once():
    assert names("laboratory", "cluster")[:3] == ["kubernetes", "etcd", "epp"]
    both = names("laboratory", "cluster")
    assert sorted(both) == sorted({*names("laboratory"), *names("cluster")})


@pytest.mark.parametrize(
    ("call", "argument", "message"),
    [
        (needed_by, "previews", "modules.yaml lists no tools for previews"),
        (lambda name: named([name]), "etdc", "the twin has no tool module named etdc"),
    ],
)
def test_a_wrong_name_is_refused(call, argument, message):
    with pytest.raises(ToolError) as refused:
        call(argument)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("stack", "purposes"),
    [
        (read("local"), ["engine", "cluster"]),
        (read("backends", EXAMPLES / "backends"), ["engine", "cluster", "clients", "backends"]),
        (read("slices", EXAMPLES / "multi-host"), ["engine", "cluster", "groups"]),
        (read("ray", EXAMPLES / "ray"), ["engine", "cluster", "ray"]),
    ],
    ids=["local", "backends", "slices", "ray"],
)
def test_a_stack_adds_the_tools_of_its_parts(stack, purposes):
    assert purposes_of(resolve(stack)) == purposes
