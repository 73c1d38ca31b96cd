"""Rollback of a commit by the health of the clusters that apply it."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.delivery.checkout import Checkout
from scripts.delivery.status import Delivered
from scripts.delivery.watching import Watch
from scripts.terminal.console import CommandError

FOLDER, OTHER = "clusters/search/us", "clusters/ads/us"


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(
        argv, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "user.name", "t")
    git(tmp_path, "config", "user.email", "t@example.com")
    return tmp_path


def change(repository: Path, folder: str, **files: str) -> str:
    for name, text in files.items():
        file = repository / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Change")
    return git(repository, "rev-parse", "HEAD")


class Clusters:
    """Clusters that apply what is in the repository, except bad commits."""

    def __init__(self, repository, *, errors=(), stuck=(), silent_for=0):
        self.repository, self.errors, self.stuck = repository, errors, stuck
        self.silent_for, self.looks, self.said = silent_for, 0, []

    def look(self):
        self.looks += 1
        if self.looks <= self.silent_for:
            raise CommandError("cluster us does not answer")
        head = git(self.repository, "rev-parse", "HEAD")
        content = git(self.repository, "ls-tree", head, f"{FOLDER}/").split()
        text = (self.repository / FOLDER / "route").read_text()
        assert content
        if text in self.errors:
            return [Delivered("us", head, "", ("KNV2009: no",), (), head)]
        rollouts = ("llama-gpu: 0 of 1 new, 0 available",) if text in self.stuck else ()
        return [Delivered("us", head, head, (), rollouts, head)]

    def watch(self, limit=20.0):
        return Watch(
            Checkout(self.repository, "main"),
            (FOLDER,),
            frozenset({"us"}),
            self.look,
            lambda _: None,
            self.said.append,
            limit,
            errors_seconds=5.0,
        )


def test_a_commit_that_is_served_stays(repository):
    change(repository, FOLDER, route="1")
    last = change(repository, FOLDER, route="2")
    clusters = Clusters(repository)
    assert clusters.watch().run()
    assert git(repository, "rev-parse", "HEAD") == last
    assert clusters.said[-1] == f"{last[:12]}: every cluster serves it"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("errors", "us: KNV2009: no"),
        ("stuck", "us: rollout of llama-gpu: 0 of 1 new, 0 available, after 20 s"),
    ],
)
def test_a_bad_commit_gives_its_folders_back_what_they_had_and_leaves_those_of_others(
    repository, kind, problem
):
    good = change(repository, FOLDER, route="1")
    bad = change(repository, FOLDER, route="2", added="new")
    change(repository, OTHER, route="theirs")
    clusters = Clusters(repository)
    setattr(clusters, kind, ("2",))
    assert not clusters.watch().run()
    assert git(repository, "diff", good, "HEAD", "--", FOLDER) == ""
    assert (repository / OTHER / "route").read_text() == "theirs"
    assert f"{bad[:12]}: {problem}" in clusters.said
    title = git(repository, "log", "-1", "--format=%s")
    assert title == f"Roll back {FOLDER} to {good[:12]}"
    assert problem in git(repository, "log", "-1", "--format=%b")


def test_errors_that_pass_roll_nothing_back(repository):
    change(repository, FOLDER, route="1")
    last = change(repository, FOLDER, route="2")
    clusters = Clusters(repository, errors=("2",), silent_for=2)
    look = clusters.look

    def recovered():
        if clusters.looks > 4:
            clusters.errors = ()
        return look()

    clusters.look = recovered
    assert clusters.watch().run()
    assert git(repository, "rev-parse", "HEAD") == last


def test_a_cluster_that_does_not_answer_in_time_is_named(repository):
    change(repository, FOLDER, route="1")
    change(repository, FOLDER, route="2")
    clusters = Clusters(repository, silent_for=22)
    assert not clusters.watch().run()
    assert any(
        "us: not applied: cluster us does not answer, after 20 s" in line for line in clusters.said
    )


def test_the_first_commit_is_not_rolled_back(repository):
    first = change(repository, FOLDER, route="1")
    clusters = Clusters(repository, errors=("1",))
    message = f"{first[:12]} is the first commit: nothing to roll back to"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        clusters.watch().run()
    assert git(repository, "rev-parse", "HEAD") == first


def test_a_rollback_that_fails_as_well_is_an_error(repository):
    change(repository, FOLDER, route="1")
    change(repository, FOLDER, route="2")
    clusters = Clusters(repository, errors=("1", "2"))
    with pytest.raises(CommandError, match="rolled back, but us: KNV2009: no"):
        clusters.watch().run()


def test_a_checkout_without_the_folders_of_the_stack_is_refused(repository):
    change(repository, OTHER, route="theirs")
    with pytest.raises(CommandError, match=f"^--git: must have commits of {FOLDER}, got none$"):
        Clusters(repository).watch().run()
