"""A part that fails."""

import threading

import pytest

from twin.host import keep_running as module
from twin.host.keep_running import keep_running, start_all


def test_a_part_that_fails_is_in_the_log_and_runs_again_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(module, "_RESTART_SECONDS", 0.0)
    stop, runs = threading.Event(), 0

    def run(event: threading.Event) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise RuntimeError("database is locked")
        event.set()

    keep_running("endpoints", run, stop)
    assert runs == 2
    assert "endpoints ended, starting it again" in caplog.text
    assert "database is locked" in caplog.text


def test_parts_run_beside_each_other_until_they_are_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_RESTART_SECONDS", 0.0)
    stop, both = threading.Event(), threading.Barrier(2)

    def run(event: threading.Event) -> None:
        both.wait(20)  # a part that waited for another to end would break it
        event.wait(20)

    threads = start_all({"front": run, "dns": run}, stop)
    assert [(thread.name, thread.daemon) for thread in threads] == [("front", True), ("dns", True)]
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not both.broken
