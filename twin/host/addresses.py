"""Blocks of loopback addresses that the twins of one machine share out among themselves.

Linux lets two gateways listen on one address and port and gives each half of the connections, so
two twins that took the same addresses would answer for each other.
"""

import socket
from hashlib import sha256
from pathlib import Path

from twin.host.processes import ProcessError

BLOCKS = 256
_GUARD_PORT = 40998


def preferred(root: Path) -> int:
    """Return the block that a twin in a folder takes if no other twin has it, 0 to 255."""
    return sha256(str(root).encode()).digest()[0]


def hold(wanted: int, *, only: bool) -> tuple[int, socket.socket]:
    """Return a block of addresses and its guard: while that socket is open, the block is taken.

    Args:
        wanted: the block to take if it is free.
        only: take no other, as addresses of this one are in use.

    Raises:
        ProcessError: another twin has the block, or all blocks are in use.
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
