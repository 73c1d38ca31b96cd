"""`gke-inference accept`: options, report, exit code, and what is checked again."""

import hashlib
import json
import subprocess
from itertools import count

import pytest
import typer

from scripts.accept import command, reach
from scripts.accept.command import accept
from scripts.accept.reach import managed
from scripts.accept.report import Report, markdown
from scripts.accept.row import Row, Subject
from scripts.accept.run import run
from scripts.accept.signing import Revision, revision, user
from scripts.backend.twin import TwinBackend
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError
from scripts.terminal.where import Where
from tests.unit.bootstrap.fake_google import refused
from twin import daemon

MET = Subject("a", "x", "p").met("m")
BAD = Subject("b", "y", "p").not_met("n")
UNSEEN = Subject("c", "z", "p").unseen("denied")
SKIPPED = Subject("d", "z", "p").skipped("needs it")


@pytest.fixture
def report(platform, tmp_path, monkeypatch, capsys):
    """Run the command on rows of the test's own; return its code and both files."""

    def call(*rows: Row, **options):
        monkeypatch.setattr(command, "_deployed", lambda *_, **__: platform)
        monkeypatch.setattr(command, "_checked", lambda *_, **__: {"Group": list(rows)})
        code = 0
        try:
            accept("local", out=tmp_path / "out", by="Ada", **options)
        except typer.Exit as ended:
            code = ended.exit_code
        page = (tmp_path / "out" / "acceptance.md").read_text()
        return code, page, json.loads((tmp_path / "out" / "acceptance.json").read_text())

    (tmp_path / "out").mkdir()
    return call


def test_a_platform_that_keeps_everything_is_accepted_and_signed(report, tmp_path):
    code, page, data = report(MET, SKIPPED)
    assert (code, data["is_accepted"], data["by"]) == (0, True, "Ada")
    assert page.startswith("# Accepted: local\n")
    assert "| Signed off | Ada, 20" in page
    assert "| a x | p | m | met |" in page
    assert "| d z | p | needs it | not checked |" in page
    digest = hashlib.sha256((tmp_path / "out" / "acceptance.json").read_bytes()).hexdigest()
    assert f"| Data | `acceptance.json`, SHA-256 `{digest}` |" in page


@pytest.mark.parametrize(("row", "word"), [(BAD, "**not met**"), (UNSEEN, "cannot be seen")])
def test_what_is_not_met_or_cannot_be_seen_is_not_accepted(report, row, word):
    code, page, data = report(MET, row)
    assert (code, data["is_accepted"]) == (1, False)
    assert page.startswith("# Not accepted: local\n")
    assert "Signed off" not in page
    assert word in page


def test_what_cannot_be_seen_may_pass_and_what_is_not_met_may_not(report):
    assert report(UNSEEN, allow_unseen=True)[0] == 0
    assert report(BAD, UNSEEN, allow_unseen=True)[0] == 1


def test_a_second_run_replaces_the_report(report):
    assert report(BAD)[0] == 1
    code, page, _ = report(MET)
    assert code == 0
    assert "not met" not in page


def test_nothing_is_deleted_without_the_option(report, fake):
    _, page, _ = report(MET)
    assert fake.cluster.deleted == []
    assert "| failover llama-3.1-8b in us-central1 | " in page
    assert "needs --failover | not checked |" in page


def test_a_failover_that_is_not_confirmed_deletes_nothing(report, fake, monkeypatch):
    monkeypatch.setattr(typer, "confirm", lambda _: False)
    with pytest.raises(CommandError, match="--failover: must be confirmed; nothing was deleted"):
        report(MET, failover=True)
    assert fake.cluster.deleted == []


def test_a_protected_stack_loses_a_replica_only_where_that_is_said_too():
    with pytest.raises(CommandError, match="--failover: must be given with --on-protected"):
        accept("prod", failover=True)


def test_options_of_a_failover_are_refused_without_it():
    with pytest.raises(CommandError, match="--yes: must be omitted without --failover"):
        accept("local", yes=True)
    with pytest.raises(CommandError, match="--on-protected: must be omitted without --failover"):
        accept("local", on_protected=True)


def test_what_google_refuses_ends_the_command_in_one_line(monkeypatch, tmp_path):
    def none(*_):
        raise CloudError("no Google credentials")

    monkeypatch.setattr(reach, "in_google_cloud", none)
    with pytest.raises(CommandError, match="acme-inference-local: no Google credentials"):
        accept("local", on=Where.CLOUD, out=tmp_path)


def test_what_is_not_met_is_checked_again_until_it_is(platform):
    times = count()

    def check(_):
        yield MET if next(times) == 2 else BAD

    assert list(run(platform, (check,), until=float("inf"))) == [MET]
    assert next(times) == 3


def test_what_is_not_met_at_the_end_stays_so(platform):
    assert list(run(platform, (lambda _: iter([BAD, SKIPPED]),), until=0)) == [BAD, SKIPPED]


class Down:
    """A Pulumi CLI that knows no stack."""

    def stacks(self) -> list[str]:
        return []


def test_a_stack_that_is_not_on_the_twin_is_refused(platform, tmp_path, monkeypatch):
    paths = reach.TwinPaths(tmp_path / "twin")
    with pytest.raises(CommandError, match="the twin is not running"):
        reach.on_twin(platform.plan, "local", paths)
    monkeypatch.setattr(daemon, "ports", lambda _: {})
    monkeypatch.setattr(TwinBackend, "pulumi", lambda _: Down())
    with pytest.raises(CommandError, match="--stack: must be a stack that is up on the twin"):
        reach.on_twin(platform.plan, "local", paths)


def test_cloud_monitoring_answers_promql(platform, fake):
    url = "monitoring.googleapis.com/v1/projects/acme-inference-local/location/global/prometheus"
    sample = {"metric": {"job": "x"}, "value": [1.5, "1"]}
    answer = {"data": {"resultType": "vector", "result": [sample]}}
    fake.google.resources[f"{url}/api/v1/query"] = answer
    (found,) = managed(platform.cloud, "up")
    assert (found.labels, found.value, found.time) == ({"job": "x"}, 1.0, 1.5)
    fake.google.refusals["monitoring"] = refused(403, "denied")
    with pytest.raises(CloudError, match="no permission at monitoring"):
        managed(platform.cloud, "up")


def test_a_revision_is_the_commit_the_changes_and_the_stack_file(tmp_path):
    (tmp_path / "stacks").mkdir()
    file = tmp_path / "stacks" / "Pulumi.x.yaml"
    file.write_text("config: {}\n")
    assert str(revision(tmp_path, "x")) == "no git checkout"

    def git(*arguments: str) -> str:
        command_line = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(
            command_line, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "x")
    found = revision(tmp_path, "x")
    assert str(found) == git("rev-parse", "HEAD")
    assert found.stack_sha256 == hashlib.sha256(b"config: {}\n").hexdigest()
    file.write_text("config: {a: 1}\n")
    assert str(revision(tmp_path, "x")) == f"{found.commit} with uncommitted changes"
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.com")
    assert user(tmp_path) == "Ada <ada@example.com>"


def test_a_cell_of_the_page_keeps_its_table():
    rows = {"Group": [Subject("a", "x", "p|q").met("one\ntwo")]}
    run_once = Report("local", "x", "Ada", "now", "now", Revision("", False, ""), rows, False)
    assert "| a x | p\\|q | one two | met |" in markdown(run_once, "0")
