"""Time to transfer KV cache between engines."""

from planner.fit.chips import CHIPS_OF_A_HOST, HostNetwork

READ_LATENCY_SECONDS = 0.002
"""Overhead of posting a read and detecting its end between two engine steps: assumed."""


def bytes_per_second(network: HostNetwork, chips: int) -> float:
    """Return how fast a number of chips of a host reads from another host."""
    return network.gbps / CHIPS_OF_A_HOST * 1e9 * chips
