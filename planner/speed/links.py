"""Time that chips and hosts spend on messages to each other in a step.

Each message takes its latency and a time per token, so a step has a fixed part and one per token.
The step of the twin and the vectorized one of the planner both take them from here.

An all-to-all sends each token to the devices of its experts, and the results back. What is sent
depends on the backend (vLLM's `--all2all-backend`):

- `deepep_high_throughput` sends a token once to each host with one of its experts, and there over
  NVLink once to each device with one. Both overlap, so the slower one counts.
- `deepep_low_latency` sends a token once for each of its experts: over NVLink on the same host,
  otherwise over the network.
- `allgather_reducescatter` (NCCL) sends every token to all devices, around rings through them.

DeepEP sends tokens in 8 bits with a scale of 4 bytes for each 128 values, and returns results in 16
bits; the all-gather sends 16 bits (vLLM's default for it: assumed). Experts are assumed to be
chosen at random. DeepSeek's models limit a token to half of the groups of experts, which matters
from eight hosts on: the model is then too slow (`all_to_all` measures by how much).
"""

from dataclasses import dataclass

from planner.fit.chips import CHIPS_OF_A_HOST, COLLECTIVE_LATENCY_SECONDS, HostNetwork

HIGH_THROUGHPUT, LOW_LATENCY = "deepep_high_throughput", "deepep_low_latency"
ALLGATHER = "allgather_reducescatter"
BACKENDS = (ALLGATHER, HIGH_THROUGHPUT, LOW_LATENCY)

LINK_REACHED = 0.67
"""Share of an NVLink's bandwidth that DeepEP reaches: its 153 and 158 GB/s on eight H800, of 200
one way, count the tokens that stay on their device, one in eight. Assumed for other chips."""
BYTES_OF_PART = {"dispatch": 1 + 4 / 128, "combine": 2.0}
"""Bytes per value that DeepEP sends."""
_GATHERED = 2.0
"""Bytes per value of an all-gather."""


@dataclass(frozen=True)
class Links:
    """Time of a step's messages, in seconds."""

    fixed: float = 0.0
    """Latency of all messages of a step."""
    per_token: float = 0.0

    def seconds(self, tokens: float) -> float:
        """Return the time for a number of tokens."""
        return self.fixed + tokens * self.per_token

    def __add__(self, other: "Links") -> "Links":
        """Return the time of both, one after the other."""
        return Links(self.fixed + other.fixed, self.per_token + other.per_token)


def all_reduces(
    layers: int,
    hidden: int,
    chips: int,
    link_gbps: float,
    latency: float = COLLECTIVE_LATENCY_SECONDS,
) -> Links:
    """Return two all-reduces in each layer, over the chips that share it.

    Args:
        layers: Layers of the model.
        hidden: Width of the model.
        chips: Chips over which a layer is split.
        link_gbps: Bandwidth between chips, one way, in 10^9 bytes per second.
        latency: Seconds of an all-reduce of a small tensor.
    """
    if chips == 1:
        return Links()
    moved = 2 * (chips - 1) / chips * hidden * 2
    return Links(2 * layers * latency, 2 * layers * moved / (link_gbps * 1e9))


def hops(stages: int, hidden: int, network: HostNetwork) -> Links:
    """Return the messages from each pipeline stage to the next."""
    return Links(
        (stages - 1) * network.latency_seconds, (stages - 1) * hidden * 2 / (network.gbps * 1e9)
    )


@dataclass(frozen=True)
class Exchange:
    """All-to-all of a layer with experts, among all devices of a replica."""

    devices: int
    """Devices of all hosts."""
    hosts: int
    experts: int
    chosen: int
    """Experts that a token passes through."""
    hidden: int
    link_gbps: float
    """Bandwidth between the devices of a host, one way, in 10^9 bytes per second."""
    network: HostNetwork
    backend: str = HIGH_THROUGHPUT

    def dispatch(self) -> Links:
        """Return sending tokens to their experts; tokens are counted over all devices."""
        return self._send(_GATHERED if self.backend == ALLGATHER else BYTES_OF_PART["dispatch"])

    def combine(self) -> Links:
        """Return sending the results back."""
        return self._send(BYTES_OF_PART["combine"])

    def _send(self, each: float) -> Links:
        size = self.hidden * each
        inside, between = self._copies()
        reached = 1.0 if self.backend == ALLGATHER else LINK_REACHED
        slowest = inside * size / (self.link_gbps * 1e9 * reached)
        latency = COLLECTIVE_LATENCY_SECONDS
        if self.hosts > 1:
            of_device = self.network.gbps * 1e9 / (self.devices / self.hosts)
            slowest = max(slowest, between * size / of_device)
            latency = self.network.latency_seconds
        return Links(latency, slowest / self.devices)

    def _copies(self) -> tuple[float, float]:
        """Return how often a token is sent inside a host, and between hosts."""
        devices, hosts = self.devices, self.hosts
        if self.backend == ALLGATHER:
            # rings through all devices: a token crosses each link of one of them, but the last
            return devices - 1.0, hosts * (1 - 1 / devices)
        if self.backend == LOW_LATENCY:
            return self.chosen * (1 / hosts - 1 / devices), self.chosen * (1 - 1 / hosts)
        return self._others(devices), self._others(hosts)

    def _others(self, parts: int) -> float:
        """Return the expected number of other parts that have one of a token's experts."""
        return parts_touched(parts, self.experts, self.chosen) * (1 - 1 / parts)


def parts_touched(parts: int, experts: int, chosen: int) -> float:
    """Return the expected number of parts with an expert of a token, if chosen at random.

    Args:
        parts: Hosts or devices over which the experts are spread evenly.
        experts: Experts of a layer.
        chosen: Different experts of a token.
    """
    missed = 1.0
    for index in range(chosen):
        missed *= max(0.0, experts * (1 - 1 / parts) - index) / (experts - index)
    return parts * (1 - missed)


def all_to_alls(layers: int, exchange: Exchange) -> Links:
    """Return the exchange in every layer; the few layers without experts count as well."""
    both = exchange.dispatch() + exchange.combine()
    return Links(layers * both.fixed, layers * both.per_token)


READ_LATENCY_SECONDS = 0.002
"""Overhead of posting a read of KV cache and detecting its end between two steps: assumed."""


def read_bytes_per_second(network: HostNetwork, chips: int) -> float:
    """Return how fast a number of chips of a host reads KV cache from another host."""
    return network.gbps / CHIPS_OF_A_HOST * 1e9 * chips
