"""Being told of the end of a process, whoever started it."""

import errno
import os
import subprocess
import sys
import threading

import pytest

from twin.cluster.agent.exits import when_ended

_SECONDS = 20.0


def test_the_end_of_a_process_is_told_once_it_has_ended():
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    ended = threading.Event()
    when_ended(process.pid, ended.set)
    assert not ended.wait(0.2)
    process.communicate(b"\n")
    assert ended.wait(_SECONDS)


def test_the_end_of_somebody_elses_process_is_told_too():
    text = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-S', '-c', 'input()']).pid, flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    ended = threading.Event()
    when_ended(int(process.stdout.readline()), ended.set)
    process.communicate(b"\n")
    assert ended.wait(_SECONDS)


def test_a_process_that_is_not_there_has_ended():
    pid = os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", ""], {})
    os.waitpid(pid, 0)
    ended = threading.Event()
    when_ended(pid, ended.set)
    assert ended.is_set()


def test_a_process_without_a_descriptor_for_it_is_told_by_nobody(monkeypatch: pytest.MonkeyPatch):
    def full(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files", str(pid))

    monkeypatch.setattr(os, "pidfd_open", full)
    ended = threading.Event()
    when_ended(os.getpid(), ended.set)
    assert not ended.is_set()
