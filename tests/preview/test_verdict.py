"""Two real checkouts, compared by the real engine."""

import shutil
import subprocess

import pytest

from scripts.shared.scratch_project import scratch_checkout
from scripts.verdicts import verdict as verdicts
from scripts.verdicts.changes import Kind
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.judging import judge
from scripts.verdicts.runs import compare, runner
from tests.unit.verdicts.record import CHANGES, outline, recorded
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]

STACK = "local"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


EXAMPLES = sorted((REPOSITORY / "docs" / "examples").glob("*/Pulumi.*.yaml"))


@pytest.fixture(scope="module")
def cli():
    with runner() as found:
        yield found
        found.stop()


# tests/contract/infra/test_checked_stacks.py reads every example; a test below compares `local`
@pytest.mark.soak
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem.removeprefix("Pulumi."))
def test_an_example_compared_with_itself_does_not_change(cli, tmp_path, file):
    name = file.stem.removeprefix("Pulumi.")
    root = scratch_checkout(tmp_path, name, file.read_text())
    for other in file.parent.glob("Pulumi.*.yaml"):  # a serving stack is read with its platform
        shutil.copy(other, root / "stacks")
    side = Checkout("itself", root)
    found = verdicts.of_stack(cli, name, side, side)
    assert (found.error, found.blocks) == ("", [])
    assert (found.changes, found.moves) == ((), ())
    assert found.unchanged >= 10
    assert found.money.before == found.money.after
    assert found.capacity == ()
    for each in (found.policies, found.invariants):
        assert (each.new, each.fixed) == ((), ())


@pytest.fixture
def checkout(tmp_path):
    """A repository with this checkout's program and one stack, all of it committed."""
    folder = tmp_path / "checkout"
    (folder / "stacks").mkdir(parents=True)
    junk = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("components", "infra", "planner", "workloads"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=junk)
    for name in ("Pulumi.yaml", f"stacks/Pulumi.{STACK}.yaml"):
        shutil.copy(REPOSITORY / name, folder / name)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "base")
    return folder


def change(folder, *pairs):
    file = folder / "stacks" / f"Pulumi.{STACK}.yaml"
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


@pytest.fixture
def runs(monkeypatch):
    """What the engine says of each stack that is judged."""
    found = []

    def kept(*arguments):
        found.append(compare(*arguments))
        return found[-1]

    monkeypatch.setattr(verdicts, "compare", kept)
    return found


def test_what_changes_is_told_and_what_does_not_stays(checkout, runs):
    change(checkout, *CHANGES.items())
    found = judge(checkout, "main", [])
    # the unit tests of what a verdict says rest on a record of this change
    assert outline(runs[0]) == outline(recorded()), "python -m tests.unit.verdicts.record"
    assert found.blocks == []
    assert found.word == "restarts"
    [stack] = found.stacks
    changed = {(each.noun, each.name): each for each in stack.changes}
    pool = changed["NodePool", "system"]
    assert (pool.kind, pool.place) == (Kind.RESTARTS, "acme-local-us-central1")
    assert changed["InferencePool", "models/gemma-3-4b"].action == "create"
    # another way in does not make it another cluster: its objects stay
    cluster = changed["Cluster", "acme-local-us-central1"]
    assert (cluster.action, cluster.kind) == ("update", Kind.SAFE)
    assert not [each for each in stack.changes if each.follows]
    # what the change does not touch stays: nothing is noise of the comparison itself
    assert ("ComputeClass", "interactive-tpu") not in changed
    assert stack.unchanged > 60
    assert "Deployment models/llama-3-1-8b-picker" in {move.workload for move in stack.moves}
    assert stack.money.before is not None
    assert stack.money.after is not None
    assert stack.money.after.expected.value > stack.money.before.expected.value
    assert [row.model for row in stack.money.rows if row.model] == ["gemma-3-4b"]
    assert {"tpu-v6e", "nvidia-l4"} <= {row.accelerator for row in stack.capacity}
    assert (stack.policies.new, stack.policies.fixed) == ((), ())
    assert (stack.invariants.new, stack.invariants.fixed) == ((), ())


@pytest.mark.soak  # test_losses.py has the refusal by the engine, tests/unit/verdicts the blocks
def test_another_name_of_the_cluster_blocks_with_everything_on_it(checkout):
    change(checkout, ("prefix: acme", "prefix: acma"))
    found = judge(checkout, "main", [STACK])
    assert f"{STACK}: would replace Cluster acme-local-us-central1" in found.blocks
    assert any(f"{STACK}: would replace Bucket acme-" in text for text in found.blocks)
    [stack] = found.stacks
    # its objects go with it, though the engine takes them for those of the new one
    inside = [each for each in stack.changes if each.follows]
    assert {each.place for each in inside} == {"acme-local-us-central1"}
    assert len(inside) > 40
    assert not [each for each in inside if each.is_blocked]
    why = {m.why for m in stack.moves if m.workload == "Deployment models/llama-3-1-8b-tpu"}
    assert why == {"cluster acme-local-us-central1 is replaced"}


def test_a_base_that_does_not_run_and_a_head_that_is_refused_are_each_one_message(checkout):
    change(checkout, ("prefix: acme", "prefix: ACME"))
    found = judge(checkout, "main", [])
    assert len(found.blocks) == 1
    assert "prefix" in found.blocks[0]
    git(checkout, "commit", "-q", "-a", "-m", "broken")
    change(checkout, ("prefix: ACME", "prefix: acme"))
    found = judge(checkout, "HEAD", [])
    assert (found.word, found.blocks) == ("not compared", [])
    [stack] = found.unread
    assert stack.error.startswith("HEAD (")
    assert "\n" not in stack.error
    assert "prefix" in stack.error


@pytest.mark.soak  # twin/tests/unit/gcp/test_recording.py has what a cloud would answer, one by one
@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_each_stack_of_this_repository_is_compared(checkout, stack):
    shutil.copy(REPOSITORY / f"stacks/Pulumi.{stack}.yaml", checkout / "stacks")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", stack)
    file = checkout / f"stacks/Pulumi.{stack}.yaml"
    text = file.read_text()
    assert "max: 2" in text or "max: 12" in text
    file.write_text(text.replace("max: 2", "max: 3").replace("max: 12", "max: 13"))
    found = judge(checkout, "HEAD", [stack])
    assert (found.word, found.blocks, found.unread) == ("safe", [], [])
    changed = {each.noun for each in found.stacks[0].changes}
    assert changed - {"ResourceQuota"} == {"HorizontalPodAutoscaler"}


def test_a_change_of_documents_runs_nothing(checkout):
    (checkout / "README.md").write_text("More words.\n")
    found = judge(checkout, "main", [])
    assert (found.stacks, found.untouched, found.word) == ((), (STACK,), "no change")
