"""The two checkouts that are compared."""

import subprocess

import pytest

from scripts.check.touched import touched
from scripts.terminal.console import CommandError
from scripts.verdicts.checkouts import (
    Checkout,
    base_checkout,
    base_commit,
    changed_files,
    head_checkout,
    platform_on,
    touches,
)
from scripts.verdicts.judging import chosen, judge
from scripts.verdicts.runs import without_keys
from twin.host.paths import REPOSITORY


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    (folder / "stacks").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "stacks" / "Pulumi.dev.yaml").write_text("config: {}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_the_base_is_where_the_branch_began(repository):
    began = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "-b", "topic")
    git(repository, "commit", "-q", "--allow-empty", "-m", "mine")
    git(repository, "checkout", "-q", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "theirs")
    git(repository, "checkout", "-q", "topic")
    assert base_commit(repository, "main") == began


def test_a_branch_that_only_the_remote_has_is_found(repository, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    git(clone, "checkout", "-q", "-b", "topic")
    git(clone, "branch", "-q", "-D", "main")
    assert base_commit(clone, "main") == git(repository, "rev-parse", "main")


def test_a_base_that_is_not_there_is_one_message_with_what_to_do(repository):
    with pytest.raises(CommandError, match=r"--base: must be .*got 'mian'.*git fetch"):
        base_commit(repository, "mian")


def test_a_folder_without_a_repository_is_one_message(tmp_path):
    with pytest.raises(CommandError, match="not a git repository"):
        base_commit(tmp_path, "main")


def test_the_bases_files_are_written_and_go_and_the_repository_keeps_nothing(repository):
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "stacks" / "Pulumi.dev.yaml").write_text("changed\n")
    roots = []

    def interrupted():
        with base_checkout(repository, "main", commit) as base:
            roots.append(base.root)
            assert base.stacks() == ["dev"]
            assert (base.root / "stacks" / "Pulumi.dev.yaml").read_text() == "config: {}\n"
            assert base.name == f"main ({commit[:7]})"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not roots[0].exists()
    assert git(repository, "worktree", "list").count("\n") == 0
    assert git(repository, "status", "--short") == "M stacks/Pulumi.dev.yaml"


def test_what_is_not_committed_counts_as_changed(repository):
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "stacks" / "Pulumi.dev.yaml").write_text("changed\n")
    (repository / "new file.md").write_text("new\n")
    assert changed_files(repository, commit) == ["new file.md", "stacks/Pulumi.dev.yaml"]


@pytest.mark.parametrize(
    ("file", "touched"),
    [
        ("stacks/Pulumi.dev.yaml", True),
        ("stacks/Pulumi.prod.yaml", False),
        ("components/gke_inference/cluster/cluster.py", True),
        ("policies/rules/cost/commitments.py", True),
        ("Pulumi.yaml", True),
        ("requirements.lock", True),
        ("README.md", False),
        ("docs/verdict.md", False),
        ("tests/contract/conftest.py", False),
    ],
)
def test_a_stack_is_run_where_a_file_it_may_be_made_of_changed(file, touched):
    assert touches("dev", [file]) is touched


def test_stacks_of_both_sides_are_looked_at_and_another_is_refused(repository):
    side = head_checkout(repository)
    assert chosen([], side, side) == ["dev"]
    gone = Checkout("elsewhere", repository / "nowhere")
    assert chosen(["dev", "dev"], gone, side) == ["dev"]
    with pytest.raises(CommandError, match="--stack: must be one of dev, got 'prod'"):
        chosen(["prod"], gone, side)


def test_a_head_that_is_no_checkout_is_one_line_with_the_option_and_the_path(tmp_path):
    for head, reason in (
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path, "not a git repository"),
    ):
        with pytest.raises(CommandError, match=r"^--head: must be a checkout of git") as error:
            judge(head, "main", [])
        assert f"{str(head)!r}: {reason}" in str(error.value)
        assert "\n" not in str(error.value)


def test_a_checkout_without_stacks_is_refused_rather_than_found_safe(tmp_path):
    side = head_checkout(tmp_path)
    with pytest.raises(CommandError, match="--head: must have stacks/"):
        chosen([], side, side)


def test_a_stack_file_needs_no_key_afterwards_and_a_secret_written_anew_still_differs():
    text = (
        "encryptionsalt: v1:a\nsecretsprovider: gcpkms://k\nconfig: {p:t: {secure: v1:%s}, a: on}\n"
    )
    one, other = (without_keys(text % value) for value in ("x", "y"))
    assert one == '{"config": {"p:t": "v1:x", "a": "on"}}'
    assert one != other


def test_a_stack_file_without_secrets_is_kept_as_it_is():
    assert without_keys("config: {a: 1} # mine\n") == "config: {a: 1} # mine\n"


def test_a_machine_without_git_is_one_message(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="git: must be on PATH"):
        base_commit(repository, "main")


def test_the_stacks_that_changes_touch_are_printed_one_a_line(repository, capsys):
    (repository / "stacks" / "Pulumi.prod.yaml").write_text("config: {}\n")
    touched("HEAD", head=repository)
    assert capsys.readouterr().out == "prod\n"
    touched("HEAD", ["dev"], repository)
    assert capsys.readouterr().out == ""
    (repository / "infra").mkdir()
    (repository / "infra" / "a.py").write_text("")
    touched("HEAD", head=repository)
    assert capsys.readouterr().out == "dev\nprod\n"


@pytest.mark.parametrize(
    ("since", "stacks", "said"),
    [
        ("mian", None, r"^--since: must be a commit, branch or tag .*got 'mian'"),
        ("HEAD", ["prud"], r"^--stack: must be one of dev, got 'prud'$"),
    ],
)
def test_a_commit_or_stack_that_is_not_there_is_refused(repository, since, stacks, said):
    with pytest.raises(CommandError, match=said):
        touched(since, stacks, repository)


def test_a_folder_below_the_root_has_no_stacks_to_be_touched(repository):
    (repository / "infra").mkdir()
    with pytest.raises(CommandError, match=r"^--head: must have stacks/Pulumi\.NAME\.yaml, got"):
        touched("HEAD", head=repository / "infra")


@pytest.mark.parametrize("name", [".gitignore", ".gitlab-ci.yml", "LICENSE", "CONTRIBUTING.md"])
def test_files_at_the_root_that_no_stack_is_made_of_touch_none(name):
    assert not touches("dev", [name])
    assert touches("dev", [f"workloads/{name}"])


def test_a_change_of_a_platform_touches_its_serving_stacks(tmp_path):
    stacks = tmp_path / "stacks"
    stacks.mkdir()
    for file in (REPOSITORY / "docs" / "examples" / "teams").glob("*.yaml"):
        (stacks / file.name).write_text(file.read_text())
    here = (Checkout("here", tmp_path),)
    assert platform_on("search", here) == "shared"
    assert platform_on("shared", here) is None
    assert touches("search", ["stacks/Pulumi.shared.yaml"], "shared")
    assert not touches("search", ["stacks/Pulumi.ads.yaml"], "shared")
    assert not touches("shared", ["stacks/Pulumi.search.yaml"], None)
