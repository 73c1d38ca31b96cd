"""Processor time and memory of the processes of containers, from the kernel."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PARENT, _SESSION, _USER, _SYSTEM, _STARTED, _PAGES = 1, 3, 11, 12, 19, 21
"""Fields of /proc/PID/stat behind the name, from 0 (proc(5))."""


@dataclass(frozen=True)
class Process:
    """A running process."""

    parent: int
    session: int
    started: str
    """Start time, which distinguishes it from another process with the same PID."""
    seconds: float
    """Processor time so far."""
    resident_bytes: int


@dataclass(frozen=True)
class Usage:
    """Usage of a container between two looks."""

    cores: float
    resident_bytes: int


def parse(stat: str) -> Process:
    """Return a process from the content of its `/proc/PID/stat`."""
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[_USER]) + int(fields[_SYSTEM])
    return Process(
        int(fields[_PARENT]),
        int(fields[_SESSION]),
        fields[_STARTED],
        ticks / _TICKS_PER_SECOND,
        int(fields[_PAGES]) * _PAGE_BYTES,
    )


def running(proc: Path = Path("/proc")) -> dict[int, Process]:
    """Return the processes of this machine by PID."""
    found: dict[int, Process] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = parse((folder / "stat").read_text())
            except OSError:  # it has ended
                continue
    return found


def tree(root: int, processes: dict[int, Process]) -> set[int]:
    """Return a container's processes: those of the session of its first one, and all descendants.

    A process of the session can outlive its parent, and a descendant can have its own session.
    """
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    left = [pid for pid, process in processes.items() if root in (pid, process.session)]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, [])
    return found


def usage(
    pids: Iterable[int], before: dict[int, Process], now: dict[int, Process], seconds: float
) -> Usage:
    """Return the usage of some processes.

    Args:
        pids: Processes of a container.
        before: Processes at the earlier look; all time of a process that began later counts.
        now: Processes at the later look.
        seconds: Time between the looks.
    """
    used, resident = 0.0, 0
    for pid in pids:
        process, earlier = now[pid], before.get(pid)
        is_same = earlier is not None and earlier.started == process.started
        used += process.seconds - (earlier.seconds if earlier is not None and is_same else 0.0)
        resident += process.resident_bytes
    return Usage(used / seconds, resident)
