"""Ports of loopback addresses, for programs whose port must be known before they start."""

import random
import socket
import time
from collections.abc import Iterable

_RANGE = range(20_000, 32_000)  # below the kernel's own choices, so a port is free after a restart
_TRIES = 200
_RELEASE_SECONDS = 2.0


def free_ports(count: int) -> tuple[int, ...]:
    """Return distinct ports of 127.0.0.1 on which currently nothing listens.

    Raises:
        OSError: none was found.
    """
    found: list[int] = []
    for port in random.sample(_RANGE, _TRIES):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return tuple(found)
    raise OSError(f"found {len(found)} free ports of 127.0.0.1, need {count}")


def free_port() -> int:
    """Return a port of 127.0.0.1 on which currently nothing listens."""
    return free_ports(1)[0]


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a program listens on a port of an address."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, port)) == 0


def are_released(ports: Iterable[int]) -> bool:
    """Return whether ports of 127.0.0.1 are free; a killed program can hold them for a moment."""
    end = time.monotonic() + _RELEASE_SECONDS
    taken = list(ports)
    while any(map(listens, taken)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
