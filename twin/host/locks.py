"""Locks between the processes, and the threads, of one twin."""

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(file: Path) -> Generator[None]:
    """Hold a lock file exclusively; the kernel releases it when the process dies."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
