"""What started programs inherit: they end with the command, and may open enough files."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host import inherited
from twin.host.processes import started_at
from twin.tests.eventually import eventually

STARTS = """
import signal, subprocess, sys, time
from twin.host.inherited import ends_with
child = subprocess.Popen(["sleep", "60"], preexec_fn=ends_with(signal.Signals(int(sys.argv[1]))))
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_program_ends_when_its_command_is_killed(number):
    command = [sys.executable, "-c", STARTS, str(int(number))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert started_at(child) is not None
        parent.kill()
    eventually(lambda: started_at(child) is None, 10)


def test_a_program_whose_command_ended_before_it_began_ends_at_once(monkeypatch):
    begin = inherited.ends_with(signal.SIGKILL)
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(inherited._libc, "prctl", lambda *_: 0, raising=False)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    begin()
    assert killed == [(os.getpid(), signal.SIGKILL)]


def limited(monkeypatch, soft, hard):
    """Set the limits that the machine has; return those that are set."""
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    inherited.raise_open_files()
    return limits[1:]


INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "becomes"),
    [
        (256, 4096, 4096),
        (256, 1_000_000, 65_536),
        (256, INFINITE, 65_536),
        (256, 256, None),
        (100_000, 1_000_000, None),
        (INFINITE, INFINITE, None),
    ],
)
def test_a_low_limit_of_open_files_is_raised_as_far_as_the_machine_allows(
    monkeypatch, soft, hard, becomes
):
    assert limited(monkeypatch, soft, hard) == ([] if becomes is None else [(becomes, hard)])
    assert inherited.open_files() == (becomes or (65_536 if soft == INFINITE else soft))


def test_a_command_in_a_shell_with_a_low_limit_has_a_higher_one():
    script = "import sys; sys.argv = ['x', '--version']\nfrom scripts import main\n"
    script += "main._run = lambda _: print(main.raise_open_files.__module__) or 0\n"
    script += "import resource, atexit\n"
    script += "atexit.register(lambda: print(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))\n"
    script += "main.main()\n"
    argv = ["bash", "-c", f'ulimit -Sn 256; exec "{sys.executable}" -c "$0"', script]
    root = Path(__file__).parents[4]
    ran = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = 65_536 if hard == INFINITE else min(hard, 65_536)
    assert ran.stdout.split() == ["twin.host.inherited", str(expected)]
