"""All benchmarks one after the other, and the exit code where a bound is missed."""

import json

import pytest
import typer

from scripts.bench import command as bench
from scripts.terminal.console import CommandError
from scripts.terminal.exit_codes import ExitCode


def fail(*_):
    raise CommandError("preview: no")


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Replace every measurement by a short one, and return the folder of results."""
    monkeypatch.setattr(bench, "REPOSITORY", tmp_path)
    monkeypatch.setattr(bench, "Engine", lambda _paths: None)
    short = {"preview": fail, "growth": lambda _engine, runs: [{"runs": runs}]}
    monkeypatch.setattr(bench, "MEASURES", short)
    monkeypatch.setattr(bench.bench_confirm, "measure", lambda: True)
    monkeypatch.setattr(bench.bench_fairness, "measure", lambda: True)
    monkeypatch.setattr(bench.bench_routing, "measure", lambda **_: False)
    return tmp_path / "build" / "bench"


def test_a_subject_that_fails_does_not_keep_the_next_from_being_measured(measured):
    with pytest.raises(CommandError, match=r"^not measured: preview$"):
        bench.measure_all(7)
    assert [file.name for file in measured.iterdir()] == ["growth.json"]
    found = json.loads((measured / "growth.json").read_text())
    assert (found["rows"], found["runs"]) == ([{"runs": 7}], 7)
    assert found["command"] == "gke-inference bench growth"


def test_a_missed_bound_is_a_failed_check(measured, monkeypatch):
    with pytest.raises(typer.Exit) as ended:
        bench.routing()
    assert ended.value.exit_code == ExitCode.CHECK_FAILED
    monkeypatch.setattr(bench.bench_routing, "measure", lambda **_: True)
    bench.routing()


def test_a_program_that_is_missing_is_one_line(measured, monkeypatch):
    def missing(*_):
        raise FileNotFoundError(2, "No such file or directory", "pulumi")

    monkeypatch.setitem(bench.MEASURES, "growth", missing)
    with pytest.raises(CommandError, match=r"^growth: .*No such file or directory: 'pulumi'$"):
        bench.growth()
