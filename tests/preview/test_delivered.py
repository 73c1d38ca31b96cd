"""A verdict on a stack that is delivered from git: objects that Pulumi never applies are judged."""

import shutil

import pytest

from infra.reading.load import STACKS
from scripts.shared.scratch_project import scratch_checkout
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.runs import compare, runner

pytestmark = pytest.mark.needs_tools

EXAMPLE = STACKS.parent / "docs" / "examples" / "gitops"


def test_a_change_of_an_object_in_the_tree_is_a_change_of_the_stack(tmp_path):
    text = (EXAMPLE / "Pulumi.search.yaml").read_text()
    sides = {"base": text, "head": text.replace("max: 2", "max: 3")}
    checkouts = []
    for name, content in sides.items():
        (tmp_path / name).mkdir()
        folder = scratch_checkout(tmp_path / name, "search", content)
        shutil.copy(EXAMPLE / "Pulumi.shared.yaml", folder / "stacks")
        checkouts.append(Checkout(name, folder))
    with runner() as cli:
        run = compare(cli, "search", *checkouts)
    changed = [step for step in run.steps if step["op"] not in {"read", "same"}]
    assert [(each["op"], each["urn"].rpartition("::")[2]) for each in changed] == [
        ("update", "us-central1-llama-3-1-8b-gpu-scaling")
    ]
    assert sum(":RepoSync::" in each["urn"] for each in run.before) == 1
