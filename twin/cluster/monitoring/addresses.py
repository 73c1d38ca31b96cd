"""Ports of loopback that a cluster's monitoring processes keep over restarts."""

import socket
import time
from pathlib import Path

from twin.host.ports import free_ports

HOST = "127.0.0.1"
_CLOSING_SECONDS = 2.0  # one that was just ended may still be closing


def kept(file: Path, count: int = 1) -> list[str]:
    """Return as many addresses `127.0.0.1:PORT` as asked for, from a file or new and written there.

    Args:
        file: keeps the addresses, one a line.
        count: number of addresses.
    """
    found = read(file)
    if len(found) != count:
        found = [f"{HOST}:{port}" for port in free_ports(count)]
        file.write_text("".join(f"{address}\n" for address in found))
    return found


def read(file: Path) -> list[str]:
    """Return the addresses that a file keeps; none where there is no such file."""
    try:
        return file.read_text().split()
    except FileNotFoundError:
        return []


def is_taken(address: str) -> bool:
    """Return whether another process listens on an address."""
    host, port = address.rsplit(":", 1)
    limit = time.monotonic() + _CLOSING_SECONDS
    while time.monotonic() < limit:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError:
                time.sleep(0.1)
                continue
        return False
    return True
