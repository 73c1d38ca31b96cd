"""`gke-inference upgrade` on a repository whose stack has old words, with a given verdict."""

import subprocess

import pytest
import typer

from infra.stack import renames
from scripts.check import upgrade as command
from scripts.check.upgrade import upgrade
from scripts.terminal.console import CommandError
from scripts.terminal.exit_codes import ExitCode
from scripts.verdicts.checkouts import edited_checkout
from scripts.verdicts.verdict import StackVerdict, Verdict
from twin.host.paths import REPOSITORY

EXAMPLE = REPOSITORY / "docs/examples/personalized-images/Pulumi.personalized-images.yaml"
NAME = "stacks/Pulumi.prod.yaml"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def old_text():
    text = EXAMPLE.read_text()
    assert "images: {sizes" in text
    text = text.replace("images: {sizes", "pictures: {sizes")
    queue = "      queue: training\n"
    assert queue in text
    return text.replace(queue, f"{queue}      most_sets: 4 # open ones\n", 1)


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "stacks").mkdir()
    (tmp_path / NAME).write_text(old_text())
    (tmp_path / "stacks/Pulumi.other.yaml").write_text(EXAMPLE.read_text())
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "old words")
    return tmp_path


@pytest.fixture
def judged(monkeypatch):
    """The files that each verdict is about; the verdict itself is that of one stack."""
    found = []
    answer = {"stack": StackVerdict("prod")}

    def judge(head, base, names, official, texts):
        with edited_checkout(head, texts) as new:
            found.append((base, names, (new.root / NAME).read_text()))
        return Verdict(base, "head", (answer["stack"],))

    monkeypatch.setattr(command, "judge", judge)
    return found, answer


def test_the_files_are_rewritten_after_the_verdict_on_their_new_text(checkout, judged, capsys):
    upgrade("main", head=checkout, yes=True)
    new = (checkout / NAME).read_text()
    assert new == old_text().replace("pictures: {sizes", "images: {sizes").replace(
        "most_sets: 4 # open ones", "max_open_sets: 4 # open ones"
    )
    assert judged[0] == [("main", [], new)]
    printed = capsys.readouterr().out
    assert f"--- a/{NAME}\n+++ b/{NAME}\n" in printed
    assert "-      most_sets: 4 # open ones\n+      max_open_sets: 4 # open ones\n" in printed
    assert printed.endswith(f"Wrote {NAME}.\n")
    assert "Pulumi.other.yaml" not in printed


def test_a_second_run_finds_nothing_to_rewrite(checkout, judged, capsys):
    upgrade("main", head=checkout, yes=True)
    before = (checkout / NAME).read_text()
    capsys.readouterr()
    upgrade("main", head=checkout)  # asks nothing, though the file is not committed
    assert capsys.readouterr().out.startswith("No stack file has an old word.\n")
    assert (checkout / NAME).read_text() == before


def test_a_dry_run_shows_both_and_writes_nothing(checkout, judged, capsys):
    upgrade("main", head=checkout, dry_run=True)
    assert "+      max_open_sets: 4" in capsys.readouterr().out
    assert "max_open_sets: 4" in judged[0][0][2]
    assert (checkout / NAME).read_text() == old_text()


def test_nothing_is_written_without_a_yes(checkout, judged, monkeypatch):
    monkeypatch.setattr(typer, "confirm", lambda question: question != f"Write {NAME}?")
    with pytest.raises(CommandError, match="not confirmed; no file was written"):
        upgrade("main", head=checkout)
    assert (checkout / NAME).read_text() == old_text()


def test_a_blocked_upgrade_exits_1_and_writes_nothing(checkout, judged):
    judged[1]["stack"] = StackVerdict("prod", error="does not run", is_head_broken=True)
    with pytest.raises(typer.Exit) as ended:
        upgrade("main", head=checkout, yes=True)
    assert ended.value.exit_code == ExitCode.CHECK_FAILED
    assert (checkout / NAME).read_text() == old_text()


def test_only_the_named_stacks_are_rewritten(checkout, judged):
    upgrade("main", ["other"], checkout, yes=True)
    assert judged[0][0][1] == ["other"]
    assert (checkout / NAME).read_text() == old_text()


def test_the_verdict_sees_the_files_behind_a_link_to_a_folder(checkout):
    (checkout / "workloads").mkdir()
    (checkout / "workloads/launcher.py").write_text("PORT = 8000\n")
    (checkout / "linked").symlink_to("workloads")
    git(checkout, "add", ".")
    with edited_checkout(checkout, {NAME: "config: {}\n"}) as new:
        assert (new.root / "linked/launcher.py").read_text() == "PORT = 8000\n"


def changed(text):
    return lambda file: file.write_text(text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed(old_text() + "# more\n"), f"{NAME}: must be committed before it is rewritten"),
        (changed("config: ["), "Pulumi.prod.yaml is not YAML: "),
        (lambda file: file.write_bytes(b"\xff"), f"{NAME}: cannot be read: "),
        (lambda file: (file.unlink(), file.mkdir()), f"{NAME}: cannot be read: is a directory"),
    ],
    ids=["changed", "no YAML", "no text", "no file"],
)
def test_a_file_that_cannot_be_rewritten_is_one_line(checkout, judged, change, said):
    change(checkout / NAME)
    with pytest.raises(CommandError) as refused:
        upgrade("main", head=checkout, yes=True)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
    assert judged[0] == []


def test_a_stack_with_other_faults_is_refused_with_each_of_them(checkout, judged):
    (checkout / NAME).write_text(old_text().replace("    prefix:", "    praefix: a\n    prefix:"))
    git(checkout, "commit", "-q", "-a", "-m", "fault")
    with pytest.raises(CommandError, match=rf"^{NAME}: praefix is not a field .*'prefix'\?"):
        upgrade("main", head=checkout, yes=True)
    assert "pictures" in (checkout / NAME).read_text()


def test_a_version_that_is_not_there_is_refused_with_the_option(checkout):
    with pytest.raises(CommandError, match=r"^--from: must be a commit, branch or tag of .*'v9'"):
        upgrade("v9", head=checkout)


def test_words_that_are_still_accepted_are_rewritten_without_a_warning(
    checkout, judged, monkeypatch, capsys
):
    monkeypatch.setattr(renames, "version", lambda: "0.0.1")
    upgrade("main", ["prod"], checkout, yes=True)
    assert capsys.readouterr().err == ""
    assert "max_open_sets" in (checkout / NAME).read_text()


def test_a_copy_of_a_tree_has_its_new_files_and_not_the_ignored_ones(checkout):
    (checkout / ".gitignore").write_text("build\n")
    (checkout / "build").write_text("")
    (checkout / "new").write_text("")
    (checkout / "stacks/Pulumi.other.yaml").unlink()
    with edited_checkout(checkout, {"new": "text\r\n"}) as found:
        names = sorted(each.name for each in found.root.rglob("*") if each.is_file())
        assert (names, found.stacks()) == ([".gitignore", "Pulumi.prod.yaml", "new"], ["prod"])
        assert (found.root / "new").read_bytes() == b"text\r\n"
    assert not found.root.exists()
    assert (checkout / "new").read_text() == ""
