"""Free ports of 127.0.0.1, for programs whose port must be known before they start."""

import random
import socket

_RANGE = range(20_000, 32_000)  # below the kernel's own choices, so a port is free after a restart
_TRIES = 200


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
