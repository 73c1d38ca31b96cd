"""Blocks of loopback addresses, divided among the twins of one machine.

Linux allows two gateways to listen on one address and port and gives each half of the connections.
Two twins with the same addresses would therefore answer each other's requests.
"""

import socket
from hashlib import sha256
from pathlib import Path

from twin.host.processes import ProcessError

BLOCKS = 256
_GUARD_PORT = 40998


def preferred(root: Path) -> int:
    """Return the preferred block of a twin in a folder, 0 to 255."""
    return sha256(str(root).encode()).digest()[0]


def hold(wanted: int, *, only: bool) -> tuple[int, socket.socket]:
    """Return a block of addresses and its guard; the block is in use while that socket is open.

    Args:
        wanted: preferred block.
        only: whether to accept only the preferred block, because its addresses are in use.

    Raises:
        ProcessError: another twin uses the block, or all blocks are in use.
    """
    for offset in range(1 if only else BLOCKS):
        block = (wanted + offset) % BLOCKS
        guard = socket.socket()
        try:
            guard.bind((f"127.32.{block}.255", _GUARD_PORT))
        except OSError:
            guard.close()
            continue
        return block, guard
    if only:
        raise ProcessError(
            f"addresses: another twin on this machine took 127.32.{wanted}.0/24, which has"
            " addresses of this one; take one of the two down"
        )
    raise ProcessError(f"addresses: all {BLOCKS} blocks of 127.32.0.0/16 are taken by other twins")
