"""Known vulnerabilities, from a report that osv-scanner wrote of two lock files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.app import build_app
from scripts.check import audit
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY

REPORT = (Path(__file__).parent / "data" / "osv_scanner.json").read_text()


@pytest.fixture
def scanner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that puts a program with a given end in place of osv-scanner."""

    def replace(code: int, output: str = "", log: str = "") -> Path:
        (tmp_path / "output").write_text(output)
        (tmp_path / "log").write_text(log)
        program = tmp_path / "osv-scanner"
        program.write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat {tmp_path}/log >&2\n'
            f"cat {tmp_path}/output\nexit {code}\n"
        )
        program.chmod(0o755)
        monkeypatch.setattr(audit, "tool", lambda _: program)
        monkeypatch.setattr(audit, "ensure_tools", lambda _: None)
        return tmp_path

    return replace


def run(*arguments: str):
    return CliRunner().invoke(build_app(("audit",)), ["audit", *arguments])


def test_every_lock_of_the_repository_is_audited():
    found = {str(file.relative_to(REPOSITORY)): kind for file, kind in audit.lock_files().items()}
    assert found["requirements.lock"] == "requirements.txt"
    assert found["workloads/images/vllm-tpu/requirements.lock"] == "requirements.txt"
    assert found["workloads/gateway/go.mod"] == "go.mod"
    assert not any(".venv" in name for name in found)


def test_findings_name_the_package_the_fix_and_the_file_and_exit_1(scanner):
    scanner(1, REPORT.replace("CHECKOUT", str(REPOSITORY)))
    answer = run()
    assert answer.exit_code == 1
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert ["leaky-package", "1.0.0", "TEST-2026-1", "7.5", "2.0.0", "requirements.lock"] in lines
    assert "2 known vulnerabilities of 2 packages" in answer.stdout


def test_of_several_fixes_the_lowest_that_is_newer_is_shown(scanner):
    report = json.loads(REPORT.replace("CHECKOUT", str(REPOSITORY)))
    first = report["results"][0]["packages"][0]
    events = [{"fixed": fixed} for fixed in ("0.9.5", "10.0.0", "2.1.0")]
    first["vulnerabilities"][0]["affected"][0]["ranges"][0]["events"] = events
    scanner(1, json.dumps(report))
    (found,) = [
        one
        for one in json.loads(run("-o", "json").stdout)
        if one["package"] == first["package"]["name"]
    ]
    assert (found["version"], found["fixed"]) == ("1.4.0", "2.1.0")


def test_json_has_every_finding(scanner):
    scanner(1, REPORT.replace("CHECKOUT", str(REPOSITORY)))
    found = json.loads(run("-o", "json").stdout)
    assert [(one["package"], one["where"]) for one in found] == [
        ("example.com/leaky", "go.mod"), ("leaky-package", "requirements.lock")
    ]  # fmt: skip


def test_nothing_found_exits_0(scanner):
    scanner(0, '{"results": []}')
    answer = run()
    assert (answer.exit_code, answer.stdout.endswith("no known vulnerability\n")) == (0, True)


@pytest.mark.parametrize(
    ("code", "log", "message"),
    [
        (127, "Scanned\nrequest failed: no such host\n", "request failed: no such host; nothing"),
        (128, "", "found no packages to check"),
    ],
)
def test_a_scan_without_a_result_is_never_a_clean_one(scanner, code, log, message):
    scanner(code, "", log)
    with pytest.raises(CommandError, match=message):
        audit.audit()


def test_a_downloaded_database_is_the_only_source(scanner, tmp_path):
    folder = scanner(0, '{"results": []}')
    audit.audit(database=tmp_path)
    assert "--offline --local-db-path=" in (folder / "arguments").read_text()


def test_a_file_that_is_not_there_is_refused_before_anything_runs():
    with pytest.raises(CommandError, match=r"^--image: must exist, got 'absent\.tar'$"):
        audit.audit(image=Path("absent.tar"))
