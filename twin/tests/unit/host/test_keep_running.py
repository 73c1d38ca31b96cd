"""A part that fails."""

import threading

import pytest

from twin.host import keep_running as module
from twin.host.keep_running import keep_running


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
