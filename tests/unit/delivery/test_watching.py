"""Rollback of a commit by the health of the clusters that apply it."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.delivery.checkout import Checkout
from scripts.delivery.rollback import History
from scripts.delivery.status import Delivered
from scripts.delivery.watching import DeliveryStatus, Watch
from scripts.terminal.console import CommandError

FOLDER, EU, OTHER = "clusters/search/us", "clusters/search/eu", "clusters/ads/us"


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    done = subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Repository:
    """A clone of a bare remote, and another clone from which others push."""

    def __init__(self, folder: Path) -> None:
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
        self.remote, self.mine, self.theirs = (
            folder / name for name in ("remote.git", "mine", "theirs")
        )
        for clone in (self.mine, self.theirs):
            git(folder, "clone", "--quiet", "remote.git", clone.name)
            git(clone, "symbolic-ref", "HEAD", "refs/heads/main")
            git(clone, "config", "user.name", "t")
            git(clone, "config", "user.email", "t@example.com")

    def change(self, folder: str = FOLDER, *, by: Path | None = None, **files: str) -> str:
        clone = by or self.mine
        if by is not None:
            git(clone, "pull", "--quiet", "origin", "main")
        for name, text in files.items():
            file = clone / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "--message", "Change")
        git(clone, "push", "--quiet", "origin", "HEAD:main")
        return git(clone, "rev-parse", "HEAD")

    def head(self) -> str:
        return git(self.remote, "rev-parse", "main")

    def text(self, path: str) -> str:
        return git(self.remote, "show", f"main:{path}")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


class Clusters:
    """Clusters that apply what is in the remote, except what a test forbids."""

    def __init__(self, repository, *names, folders=(FOLDER,)):
        self.repository, self.names = repository, names or ("us",)
        self.folders = folders
        self.errors, self.stuck, self.silent, self.behind = set(), set(), {}, {}
        self.clock, self.looks, self.said = 0.0, 0, []
        self.at_look = {}

    def look(self):
        self.looks += 1
        self.clock += 0.5  # a look takes time as well
        if self.looks in self.at_look:
            self.at_look[self.looks]()
        seen = {name: self._status(name) for name in self.names if name not in self.silent}
        return DeliveryStatus(seen, dict(self.silent))

    def _status(self, name):
        head = self.repository.head()
        if name in self.behind:
            return Delivered(
                name, self.behind[name], self.behind[name], ("KNV2004: no access",), ()
            )
        text = self.repository.text(f"{FOLDER}/route")
        if text in self.errors:
            return Delivered(name, head, "", ("KNV2009: no",), (), head)
        rollouts = ("llama-gpu: 0 of 1 new, 0 available",) if text in self.stuck else ()
        return Delivered(name, head, head, (), rollouts, head)

    def _sleep(self, seconds):
        self.clock += seconds

    def watch(self, good=""):
        watched = Watch(
            History(Checkout(self.repository.mine, "main"), self.folders),
            self.names,
            self.look,
            lambda: self.clock,
            self._sleep,
            self.said.append,
            limit_seconds=20.0,
            errors_seconds=5.0,
        )
        return watched.run(good)


def test_a_commit_that_is_served_stays(repository):
    repository.change(route="1")
    last = repository.change(route="2")
    clusters = Clusters(repository)
    assert clusters.watch()
    assert repository.head() == last
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
    good = repository.change(route="1")
    bad = repository.change(route="2", added="new")
    repository.change(OTHER, route="theirs")
    clusters = Clusters(repository)
    setattr(clusters, kind, {"2"})
    assert not clusters.watch()
    assert git(repository.mine, "diff", good, repository.head(), "--", FOLDER) == ""
    assert repository.text(f"{OTHER}/route") == "theirs"
    assert git(repository.mine, "status", "--porcelain") == ""
    assert any(line.startswith(f"{bad[:12]}: {problem}") for line in clusters.said)
    title, _, body = git(repository.mine, "log", "-1", "--format=%B").partition("\n")
    assert title == f"Roll back {FOLDER} to {good[:12]}"
    assert problem in body
    assert f"Rolls-back: {bad}" in body


def test_a_bad_commit_that_adds_a_region_is_rolled_back_with_it(repository):
    repository.change(route="1")
    (repository.mine / EU).mkdir()
    (repository.mine / EU / "route").write_text("new")
    repository.change(route="2")
    assert repository.text(f"{EU}/route") == "new"
    clusters = Clusters(repository, folders=(EU, FOLDER, "clusters/search/asia"))
    clusters.errors = {"2"}
    assert not clusters.watch()
    assert repository.text(f"{FOLDER}/route") == "1"
    with pytest.raises(subprocess.CalledProcessError):
        repository.text(f"{EU}/route")


def test_a_merge_is_one_change(repository):
    base = repository.change(route="1", other="1")
    git(repository.mine, "checkout", "--quiet", "-b", "topic")
    for text in ("2", "3"):
        (repository.mine / FOLDER / "route").write_text(text)
        git(repository.mine, "commit", "--quiet", "--all", "--message", text)
    git(repository.mine, "checkout", "--quiet", "main")
    repository.change(other="2")
    git(repository.mine, "merge", "--quiet", "--no-ff", "--message", "Merge", "topic")
    git(repository.mine, "push", "--quiet", "origin", "main")
    clusters = Clusters(repository)
    clusters.errors = {"3"}
    assert not clusters.watch()
    assert (repository.text(f"{FOLDER}/route"), repository.text(f"{FOLDER}/other")) == ("1", "2")
    assert base != repository.head()


def test_a_commit_to_return_to_can_be_named(repository):
    good = repository.change(route="1")
    for text in ("2", "3"):
        repository.change(route=text)
    clusters = Clusters(repository)
    clusters.errors = {"2", "3"}
    assert not clusters.watch(good)
    assert repository.text(f"{FOLDER}/route") == "1"
    with pytest.raises(CommandError, match=r"^--good: must be a commit .* got 'nonesuch'$"):
        clusters.watch("nonesuch")


def test_a_rollback_is_not_rolled_back_to_what_was_bad(repository):
    repository.change(route="1")
    repository.change(route="2")
    clusters = Clusters(repository)
    clusters.errors = {"1", "2"}
    with pytest.raises(CommandError, match="rolled back, but us: KNV2009: no"):
        clusters.watch()
    rolled_back = repository.head()
    with pytest.raises(CommandError, match=r"is a rollback itself; nothing was rolled back$"):
        clusters.watch()
    assert repository.head() == rolled_back


def test_what_others_push_to_other_folders_meanwhile_is_kept(repository):
    repository.change(route="1")
    repository.change(route="2")
    clusters = Clusters(repository)
    clusters.errors = {"2"}
    clusters.at_look[2] = lambda: repository.change(OTHER, by=repository.theirs, route="theirs")
    assert not clusters.watch()
    assert repository.text(f"{FOLDER}/route") == "1"
    assert repository.text(f"{OTHER}/route") == "theirs"


def test_what_others_push_to_the_same_folders_meanwhile_is_not_rolled_back(repository):
    repository.change(route="1")
    repository.change(route="2")
    clusters = Clusters(repository)
    clusters.errors = {"2"}
    mine = git(repository.mine, "rev-parse", "HEAD")
    clusters.at_look[2] = lambda: repository.change(by=repository.theirs, added="theirs")
    message = f"{FOLDER} changed in origin/main in the meantime; nothing was rolled back"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        clusters.watch()
    assert repository.text(f"{FOLDER}/route") == "2"
    assert git(repository.mine, "rev-parse", "HEAD") == mine
    assert git(repository.mine, "status", "--porcelain") == ""


def test_errors_that_pass_roll_nothing_back(repository):
    repository.change(route="1")
    last = repository.change(route="2")
    clusters = Clusters(repository)
    clusters.errors = {"2"}
    clusters.at_look[4] = clusters.errors.clear
    assert clusters.watch()
    assert repository.head() == last


def test_a_cluster_that_does_not_answer_or_cannot_read_git_rolls_nothing_back(repository):
    first = repository.change(route="1")
    last = repository.change(route="2")
    clusters = Clusters(repository, "us", "eu", "asia")
    clusters.silent, clusters.behind = {"eu": "no answer"}, {"asia": first}
    with pytest.raises(CommandError) as refused:
        clusters.watch()
    said = str(refused.value)
    assert "eu: no answer" in said
    assert f"asia: has not read {last[:12]}: KNV2004: no access" in said
    assert "us:" not in said
    assert said.endswith("nothing was rolled back")
    assert repository.head() == last


def test_a_bad_commit_is_rolled_back_although_another_cluster_does_not_answer(repository):
    repository.change(route="1")
    repository.change(route="2")
    clusters = Clusters(repository, "us", "eu")
    clusters.errors, clusters.silent = {"2"}, {"eu": "no answer"}
    clusters.at_look[9] = clusters.silent.clear
    assert not clusters.watch()
    assert repository.text(f"{FOLDER}/route") == "1"


def test_the_time_of_looks_counts(repository):
    repository.change(route="1")
    repository.change(route="2")
    clusters = Clusters(repository)
    clusters.silent = {"us": "no answer"}
    with pytest.raises(CommandError, match=r"after 2\d s"):
        clusters.watch()
    assert clusters.looks <= 15


def test_the_first_commit_is_not_rolled_back(repository):
    first = repository.change(route="1")
    clusters = Clusters(repository)
    clusters.errors = {"1"}
    message = f"{first[:12]} is the first commit of the stack: nothing to roll back to"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        clusters.watch()
    assert repository.head() == first


def test_a_checkout_that_cannot_roll_back_is_refused_before_a_look(repository, tmp_path):
    repository.change(OTHER, route="theirs")
    clusters = Clusters(repository)
    with pytest.raises(CommandError, match=f"^--git: must have commits of {FOLDER}, got none$"):
        clusters.watch()
    repository.change(route="1")
    (repository.mine / FOLDER / "route").write_text("unpushed")
    git(repository.mine, "commit", "--quiet", "--all", "--message", "Mine")
    with pytest.raises(CommandError, match=r"^--git: must be at the last commit of origin/main, "):
        clusters.watch()
    git(repository.mine, "push", "--quiet", "origin", "main")
    url = repository.remote.as_uri()
    git(tmp_path, "clone", "--quiet", "--depth=1", url, "shallow")
    repository.mine = tmp_path / "shallow"
    with pytest.raises(
        CommandError, match=r"^--git: must be a clone with its history, got a shallow"
    ):
        clusters.watch()
    assert clusters.looks == 0


def test_a_checkout_without_an_identity_is_refused_before_a_look(repository, monkeypatch):
    repository.change(route="1")
    git(repository.mine, "config", "--unset", "user.name")
    git(repository.mine, "config", "--unset", "user.email")
    git(repository.mine, "config", "user.useConfigOnly", "true")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    for name in (
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ):
        monkeypatch.delenv(name, raising=False)
    clusters = Clusters(repository)
    message = "--git: must have user.name and user.email configured, got none"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        clusters.watch()
    assert clusters.looks == 0
