"""Which tools a command or a part of a stack waits for."""

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.operate.stack_tools import purposes_of
from twin.host.paths import REPOSITORY
from twin.toolchain import ToolError, modules, named, needed_by, recipe

EXAMPLES = REPOSITORY / "docs" / "examples"


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
        "bbr",
        "fake-gcs-server",
    ]


def test_every_tool_is_needed_by_something():
    needed = {name for names in recipe()["needs"].values() for name in names}
    assert needed == set(modules())


def test_a_tool_of_two_purposes_is_listed_once():
    assert names("laboratory", "cluster")[:3] == ["kubernetes", "etcd", "epp"]
    assert len(names("laboratory", "cluster")) == len(names("cluster"))


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
    ],
    ids=["local", "backends", "slices"],
)
def test_a_stack_adds_the_tools_of_its_parts(stack, purposes):
    assert purposes_of(resolve(stack)) == purposes
