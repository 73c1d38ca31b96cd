"""All benchmarks one after the other."""

import json

import pytest

from scripts import bench
from scripts.bench import Subject
from scripts.console import CommandError


def fail(_engine, _runs):
    raise CommandError("no")


def test_a_subject_that_fails_does_not_keep_the_next_from_being_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "REPOSITORY", tmp_path)
    monkeypatch.setattr(bench, "Engine", lambda _paths: None)
    monkeypatch.setitem(bench._MEASURES, Subject.PREVIEW, fail)
    monkeypatch.setitem(bench._MEASURES, Subject.GROWTH, lambda _engine, runs: [{"runs": runs}])
    with pytest.raises(CommandError, match=r"^not measured: preview$"):
        bench.bench([Subject.PREVIEW, Subject.GROWTH], 7)
    written = {file.name for file in (tmp_path / "build" / "bench").iterdir()}
    assert written == {"growth.json"}
    found = json.loads((tmp_path / "build" / "bench" / "growth.json").read_text())
    assert found["rows"] == [{"runs": 7}]
