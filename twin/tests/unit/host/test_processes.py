import os
import signal
import subprocess
import sys

import pytest

from twin.host import processes
from twin.host.paths import TwinPaths

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def paths(tmp_path):
    found = TwinPaths(tmp_path / "twin")
    found.create()
    yield found
    processes.stop(found, *processes.running(found))


def test_a_started_process_is_found_again_by_name(paths):
    pid = processes.ensure(paths, "sleeper", SLEEP)
    assert processes.pid_of(paths, "sleeper") == pid
    assert processes.ensure(paths, "sleeper", SLEEP) == pid
    assert processes.running(paths) == {"sleeper": pid}


def test_a_killed_process_counts_as_gone_and_is_started_anew(paths):
    pid = processes.ensure(paths, "sleeper", SLEEP)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert processes.pid_of(paths, "sleeper") is None
    assert processes.ensure(paths, "sleeper", SLEEP) != pid


def test_a_pid_that_another_program_has_by_now_is_not_ours(paths):
    stranger = subprocess.Popen(SLEEP)
    try:
        processes.register(paths, "sleeper", stranger.pid)
        record = paths.pids / "sleeper.json"
        record.write_text(f'{{"pid": {stranger.pid}, "started": "1"}}')
        assert processes.pid_of(paths, "sleeper") is None
        processes.stop(paths, "sleeper")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_that_ignores_sigterm_is_killed(paths):
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True)\n"
        "time.sleep(60)"
    )
    pid = processes.ensure(
        paths,
        "stubborn",
        [sys.executable, "-c", stubborn],
        ready=lambda: "on" in processes.log_of(paths, "stubborn").read_text(),
    )
    processes.stop(paths, "stubborn", grace=0.3)
    assert processes.started_at(pid) is None


def test_a_process_that_ends_at_once_is_an_error_that_holds_its_last_words(paths):
    argv = [sys.executable, "-c", "raise SystemExit('no such bucket')"]
    with pytest.raises(processes.ProcessError, match=r"broken ended with status 1: no such bucket"):
        processes.ensure(paths, "broken", argv, ready=lambda: False)


def test_a_program_that_does_not_exist_is_named(paths):
    with pytest.raises(processes.ProcessError, match=r"ghost: .*No such file"):
        processes.ensure(paths, "ghost", ["/no/such/program"])
