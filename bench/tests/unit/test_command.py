"""All benchmarks one after the other, and the exit code where a bound is missed."""

import json

import pytest
import typer

from bench import bounds, measures
from bench import command as bench
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
    assert found["command"] == "bench growth"


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


def test_a_value_above_its_bound_ends_with_exit_code_1_and_is_in_the_file(
    measured, monkeypatch, capsys
):
    rows = [{"stack": "prod", "preview_s": 10.4, "ratio": 2.5}]
    monkeypatch.setitem(bench.MEASURES, "preview", lambda *_: rows)
    with pytest.raises(typer.Exit) as ended:
        bench.preview()
    assert ended.value.exit_code == ExitCode.CHECK_FAILED
    checks = json.loads((measured / "preview.json").read_text())["checks"]
    assert [(check["value"], check["pass"]) for check in checks] == [(10.4, False), (2.5, True)]
    assert "preview of prod, seconds: 10.4 misses, bound 10" in capsys.readouterr().out


def test_a_figure_that_was_not_measured_does_not_meet_its_bound():
    for rows in ([{"stack": "local", "verdict_s": 1.0}], [{"stack": "prod", "seconds": 1.0}]):
        (check,) = bounds.check("verdict", rows)
        assert (check.value, check.passes) == (None, False)


def test_what_the_callout_adds_is_the_difference_of_both_ways():
    rows = [
        {"what": "through the callout", "p50_ms": 54.8, "p99_ms": 75.4},
        {"what": "without it", "p50_ms": 52.8, "p99_ms": 65.0},
    ]
    assert [(check.value, check.passes) for check in bounds.check("callout", rows)] == [
        (2.0, True),
        (10.4, False),
    ]


def test_every_bound_is_of_a_subject_that_is_measured():
    assert set(bounds.BOUNDS) <= set(measures.MEASURES)
