"""Loopback ports that a cluster's monitoring processes keep across restarts."""

import socket
import time
from pathlib import Path

from twin.host.ports import free_ports

HOST = "127.0.0.1"
_CLOSING_SECONDS = 2.0  # one that was just ended may still be closing


def kept(file: Path, count: int = 1) -> list[str]:
    """Return addresses `127.0.0.1:PORT` from a file, which is created if it does not exist.

    Args:
        file: file of the addresses, one per line.
        count: number of addresses.
    """
    found = read(file)
    if len(found) != count:
        found = [f"{HOST}:{port}" for port in free_ports(count)]
        file.write_text("".join(f"{address}\n" for address in found))
    return found


def read(file: Path) -> list[str]:
    """Return the addresses in a file; empty if it does not exist."""
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
