"""The engines at the other end of the providers' connections.

A gRPC server in Python sees calls but not connections, so these are read from the kernel.
"""

from pathlib import Path

_ESTABLISHED = "01"
_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F")  # the second: seen through IPv6
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def port_of(peer: str) -> int | None:
    """Return the port of a gRPC peer such as `ipv4:127.0.0.1:43397`; None for other kinds."""
    port = peer.rpartition(":")[2]
    return int(port) if port.isdigit() else None


def connected_ports() -> set[int]:
    """Return the connected ports of 127.0.0.1."""
    found: set[int] = set()
    for table in map(Path, _TABLES):
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for line in lines:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if address in _LOOPBACK and fields[3] == _ESTABLISHED:
                found.add(int(port, 16))
    return found
