"""Ranges of pod addresses, of which no two clusters of a machine may use the same one."""

import socket

from twin.host import processes

_BLOCKS = 32  # pod ranges 127.64.0.0/15 to 127.126.0.0/15: any local process may bind them
_GUARD_PORT = 40999
GUARD_VARIABLE = "GKE_INFERENCE_GUARD"
"""Variable with the inherited file descriptor of the guard, for the process that simulates GKE."""


def guard_address(block: int) -> tuple[str, int]:
    """Return the address on which a cluster listens while it uses a block of pod addresses."""
    return f"127.{64 + 2 * block + 1}.255.254", _GUARD_PORT


def hold_block(block: int) -> socket.socket:
    """Return the bound guard of a block of pod addresses; the block is in use while it is open.

    Raises:
        OSError: a cluster of this or another twin uses the block.
    """
    guard = socket.socket()
    try:
        guard.bind(guard_address(block))
    except OSError:
        guard.close()
        raise
    return guard


def hold_free_block(seed: int) -> tuple[int, socket.socket]:
    """Return a block of pod addresses that no cluster of any twin uses, and its guard.

    Raises:
        processes.ProcessError: all blocks are in use.
    """
    for offset in range(_BLOCKS):
        block = (seed + offset) % _BLOCKS
        try:
            return block, hold_block(block)
        except OSError:
            continue
    raise processes.ProcessError(
        f"all {_BLOCKS} ranges of pod addresses are in use on this machine"
    )
