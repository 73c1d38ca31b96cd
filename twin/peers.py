"""The engines at the other end of the providers' connections.

A gRPC server in Python is told of calls, not of connections, so the kernel is asked.
"""

from pathlib import Path

_ESTABLISHED = "01"
_LOOPBACK = "0100007F"


def port_of(peer: str) -> int | None:
    """Return the port of a gRPC peer such as `ipv4:127.0.0.1:43397`, None for other kinds."""
    port = peer.rpartition(":")[2]
    return int(port) if port.isdigit() else None


def connected_ports() -> set[int]:
    """Return the ports of 127.0.0.1 that have a connection."""
    found: set[int] = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        address, _, port = fields[1].partition(":")
        if address == _LOOPBACK and fields[3] == _ESTABLISHED:
            found.add(int(port, 16))
    return found
