"""Delivery of a canary's share from git, while others push."""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.plan import resolve
from infra.reading.load import STACKS, read
from infra.stack import DeliverySourceKind
from scripts.canary import rollout
from scripts.canary.rollout import Rollout
from scripts.delivery.checkout import Checkout, checkout_of
from scripts.delivery.status import Delivered
from scripts.delivery.tree import tree_of, write_tree
from scripts.terminal.console import CommandError

PLAN = resolve(read("search", STACKS.parent / "docs" / "examples" / "gitops"))
CLUSTER = "acme-gitops-us-central1"
FOLDER = "clusters/search/us-central1"


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    done = subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def tree(value: str):
    obj = {
        "apiVersion": "v1",
        "data": {"percent": value},
        "kind": "ConfigMap",
        "metadata": {"name": "route", "namespace": "search"},
    }
    return tree_of("search", "search", {FOLDER: [obj]})


class Others:
    """Another clone, from which somebody pushes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0

    def push(self, name: str = "theirs", text: str = "") -> str:
        self._count += 1
        git(self.folder, "pull", "--quiet", "--rebase")
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text or str(self._count))
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", "Theirs")
        git(self.folder, "push", "--quiet")
        return git(self.folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    """Return a checkout with a tree that is pushed, and another one of the same remote."""
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    for name in ("mine", "theirs"):
        git(tmp_path, "clone", "--quiet", "remote.git", name)
        git(tmp_path / name, "symbolic-ref", "HEAD", "refs/heads/main")
        git(tmp_path / name, "config", "user.name", "t")
        git(tmp_path / name, "config", "user.email", "t@example.com")
    write_tree(tree("5"), tmp_path / "mine")
    git(tmp_path / "mine", "add", "--all")
    git(tmp_path / "mine", "commit", "--quiet", "--message", "Serve")
    git(tmp_path / "mine", "push", "--quiet", "--set-upstream", "origin", "main")
    git(tmp_path / "theirs", "pull", "--quiet", "origin", "main")
    git(tmp_path / "theirs", "branch", "--set-upstream-to=origin/main")
    return Checkout(tmp_path / "mine", "main"), Others(tmp_path / "theirs")


def test_a_commit_of_others_does_not_stop_a_push(repository):
    mine, others = repository
    theirs = others.push()
    write_tree(tree("0"), mine.folder)
    mine.commit([FOLDER], "Set the canary to 0%")
    commit = mine.push()
    assert git(others.folder, "ls-remote", "origin", "main").split()[0] == commit
    assert mine.has(theirs, commit)


def test_lines_that_others_changed_as_well_are_an_error_and_no_rebase_is_left(repository):
    mine, others = repository
    others.push(f"{FOLDER}/configmap.core-route.yaml", "theirs")
    write_tree(tree("0"), mine.folder)
    mine.commit([FOLDER], "Set the canary to 0%")
    with pytest.raises(CommandError, match="git pull: "):
        mine.push()
    assert git(mine.folder, "status", "--porcelain") == ""
    assert git(mine.folder, "log", "--format=%s", "-1") == "Set the canary to 0%"


def test_a_later_commit_of_others_has_ours(repository):
    mine, others = repository
    ours = mine.push()
    later = others.push()  # mine has not seen it yet
    assert mine.has(ours, later)
    assert not mine.has(later, ours)
    assert not mine.has(ours, "")


def test_a_commit_has_the_folders_of_the_stack_alone(repository):
    mine, _ = repository
    (mine.folder / "draft.md").write_text("mine")
    git(mine.folder, "add", "draft.md")
    write_tree(tree("0"), mine.folder)
    mine.commit([FOLDER], "Set the canary to 0%")
    assert "draft.md" not in git(mine.folder, "show", "--name-only", "--format=")
    assert git(mine.folder, "status", "--porcelain") == "A  draft.md"


@pytest.mark.parametrize(
    ("is_run", "file", "refused"),
    [
        (True, "draft.md", True),
        (False, "draft.md", False),
        (True, f"{FOLDER}/x.yaml", True),
        (False, f"{FOLDER}/x.yaml", True),
    ],
)
def test_to_take_a_share_back_the_folders_of_the_stack_alone_must_be_clean(
    repository, is_run, file, refused
):
    mine, _ = repository
    (mine.folder / file).write_text("mine")
    if refused:
        with pytest.raises(CommandError, match="--git: must be a checkout without changes"):
            checkout_of(PLAN, "search", mine.folder, is_run=is_run)
    else:
        assert checkout_of(PLAN, "search", mine.folder, is_run=is_run) == mine


def test_a_checkout_of_another_branch_than_the_clusters_read_is_refused(repository):
    mine, _ = repository
    git(mine.folder, "checkout", "--quiet", "-b", "draft")
    message = "--git: must be on the branch of delivery.source, 'main', got 'draft'"
    with pytest.raises(CommandError, match=re.escape(message)):
        checkout_of(PLAN, "search", mine.folder, is_run=True)


def test_a_stack_that_is_delivered_from_a_registry_is_refused():
    plan = resolve(read("search", STACKS.parent / "docs" / "examples" / "gitops"))
    source = plan.platform.delivery.source
    assert source is not None
    from_registry = source.model_copy(update={"kind": DeliverySourceKind.OCI})
    delivery = plan.platform.delivery.model_copy(update={"source": from_registry})
    fake: Any = SimpleNamespace(
        platform=plan.platform.model_copy(update={"delivery": delivery}), regions=plan.regions
    )
    with pytest.raises(CommandError, match="delivered from a registry"):
        checkout_of(fake, "search", None, is_run=True)


class Delivering:
    """A rollout whose clusters say in turn what a test tells them to."""

    def __init__(self, monkeypatch, mine: Checkout, *answers: Any) -> None:
        self.answers, self.shares, self.slept = list(answers), [], 0
        monkeypatch.setattr(rollout, "plan_of", lambda stack: PLAN)
        monkeypatch.setattr(rollout, "find_delivered", self._find)
        monkeypatch.setattr(rollout, "write_percent", lambda *given: self.shares.append(given[2]))
        monkeypatch.setattr(rollout, "close", lambda clusters: None)
        monkeypatch.setattr(Rollout, "_tree", lambda _: tree(str(self.shares[-1])))
        backend: Any = SimpleNamespace(clusters=list)
        self.mine = mine
        self.rollout = Rollout("search", "llama-3.1-8b", backend, mine, self._sleep, 5.0)

    def _sleep(self, seconds: float) -> None:
        self.slept += 1

    def _find(self, *_: Any) -> list[Delivered]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(git(self.mine.folder, "rev-parse", "HEAD"))


def cluster(**fields: Any):
    """Return what a cluster says of the commit that it is asked for."""

    def answer(head: str) -> list[Delivered]:
        base: dict[str, Any] = {
            "cluster": CLUSTER,
            "revision": head,
            "synced": "",
            "errors": (),
            "rollouts": (),
        }
        said: dict[str, Any] = {
            key: head if value == "HEAD" else value for key, value in fields.items()
        }
        return [Delivered(**base | said)]

    return answer


REFUSED = cluster(errors=("KNV2010: no",), tried="HEAD")


def test_a_share_is_set_when_every_cluster_has_the_commit(repository, monkeypatch):
    mine, _ = repository
    tried = Delivering(monkeypatch, mine, lambda head: [], cluster(), cluster(synced="HEAD"))
    tried.rollout.set_percent(50)
    assert (tried.shares, tried.slept) == ([50], 2)
    assert git(mine.folder, "log", "--format=%s", "-1") == "Set the canary of llama-3.1-8b to 50%"


def test_what_a_cluster_says_of_the_commit_before_is_not_the_end(repository, monkeypatch):
    mine, _ = repository
    old = cluster(errors=("KNV2010: no",), tried="an older one")
    tried = Delivering(monkeypatch, mine, old, cluster(synced="HEAD"))
    tried.rollout.set_percent(50)
    assert tried.slept == 1
    refused = Delivering(monkeypatch, mine, REFUSED)
    with pytest.raises(CommandError, match=f"cluster {CLUSTER}: KNV2010: no"):
        refused.rollout.set_percent(60)


def test_errors_do_not_end_the_wait_for_a_share_of_0(repository, monkeypatch):
    mine, _ = repository
    Delivering(monkeypatch, mine, REFUSED, cluster(synced="HEAD")).rollout.set_percent(0)
    never = Delivering(monkeypatch, mine, cluster())
    with pytest.raises(CommandError, match=f"{CLUSTER}: must have .* within 5 s"):
        never.rollout.set_percent(0)


def test_a_cluster_that_does_not_answer_is_asked_again(repository, monkeypatch):
    mine, _ = repository

    def silent(head: str) -> list[Delivered]:
        raise CommandError("cluster c does not answer: timed out")

    Delivering(monkeypatch, mine, silent, cluster(synced="HEAD")).rollout.set_percent(0)


def test_a_checkout_without_what_the_stack_says_is_refused_before_the_first_step(
    repository, monkeypatch
):
    mine, _ = repository
    tried = Delivering(monkeypatch, mine, cluster(synced="HEAD"))
    tried.shares.append(5)
    tried.rollout.check_rendered()
    tried.shares.append(7)
    with pytest.raises(CommandError, match="commit what render --stack search --git writes"):
        tried.rollout.check_rendered()
