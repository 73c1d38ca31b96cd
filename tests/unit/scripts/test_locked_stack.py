"""A stack that another run has locked: the next command waits for it, or clears a stale lock."""

import json
import socket
import subprocess
import threading
import time

import pytest

from scripts.shared import engine as engine_module
from scripts.shared.engine import Engine
from scripts.terminal.console import CommandError
from twin.host.paths import TwinPaths


@pytest.fixture
def engine(tmp_path):
    """An engine without a daemon."""
    made = Engine.__new__(Engine)
    made.paths = TwinPaths(tmp_path)
    return made


def lock(engine, pid, host=None):
    folder = engine.paths.root / "pulumi-state/.pulumi/locks/organization/gke-inference/local"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{pid}.json"
    file.write_text(json.dumps({"pid": pid, "hostname": host or socket.gethostname()}))
    return file


def test_the_next_run_waits_for_one_that_still_runs_and_says_so(engine, capsys):
    with subprocess.Popen(["sleep", "1"]) as running:
        file = lock(engine, running.pid)
        threading.Thread(target=running.wait).start()
        began = time.monotonic()
        engine.wait_for_others("local")
    assert time.monotonic() - began > 0.5
    assert not file.exists()
    waited, cleared = capsys.readouterr().out.splitlines()
    assert waited == f"Waiting for another run of local to end (process {running.pid})."
    assert cleared == f"Cleared the lock of an interrupted run (process {running.pid})."


def test_a_lock_of_another_machine_and_half_a_lock_are_left_alone(engine, capsys):
    kept = [lock(engine, 1, "elsewhere"), lock(engine, 2)]
    kept[1].write_text("{")
    engine.wait_for_others("local")
    assert all(file.exists() for file in kept)
    assert capsys.readouterr().out == ""


def test_a_shell_with_too_few_open_files_is_refused_before_anything_starts(monkeypatch, tmp_path):
    monkeypatch.setattr(engine_module, "open_files", lambda: 256)
    with pytest.raises(CommandError) as refused:
        Engine(TwinPaths(tmp_path / "twin"))
    assert str(refused.value) == "ulimit -n: must be at least 1024 in this shell, got 256"
    assert not (tmp_path / "twin").exists()
