"""What the programs that a command starts inherit: its end, and how many files they may open."""

import ctypes
import os
import resource
import signal
from collections.abc import Callable

LEAST_OPEN_FILES = 1024
"""Open files that the twin needs per process: Linux's usual default, with which it is tested."""
_MOST_OPEN_FILES = 65_536
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_libc = ctypes.CDLL(None)


def ends_with(number: signal.Signals) -> Callable[[], None]:
    """Return a `preexec_fn` that makes a child receive a signal when this process is killed.

    The kernel sends it at the end of the thread that starts the child, so that thread must wait.
    """
    parent = os.getpid()

    def begin() -> None:
        if number == signal.SIGINT:  # a shell that starts this in the background ignores it
            signal.signal(number, signal.SIG_DFL)
        _libc.prctl(_PARENT_DEATH_SIGNAL, number)
        if os.getppid() != parent:  # it ended before it could be watched
            os.kill(os.getpid(), number)

    return begin


def raise_open_files() -> None:
    """Allow this process, and what it starts, as many open files as the machine does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def open_files() -> int:
    """Return how many files this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
