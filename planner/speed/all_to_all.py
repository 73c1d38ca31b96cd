"""The calculated times of all-to-all messages, compared with DeepEP's published ones."""

from dataclasses import dataclass
from typing import Any

from planner.fit.chips import CHIPS_OF_A_HOST, HOST_NETWORKS, NETWORK_REACHED, HostNetwork
from planner.fit.tables import table
from planner.speed.links import BYTES_OF_PART, Exchange, parts_touched


@dataclass(frozen=True)
class Kernel:
    """A published kernel time, and the calculated one, in seconds."""

    backend: str
    part: str
    """`dispatch` or `combine`."""
    devices: int
    published: float
    calculated: float

    @property
    def error(self) -> float:
        """Calculated over published, minus one."""
        return self.calculated / self.published - 1


def kernels() -> tuple[Kernel, ...]:
    """Return all published kernel times.

    Their fraction of the network's rate is the one of `HOST_NETWORKS`, which was not chosen by
    them; the fraction of NVLink was, by the two with eight devices and high throughput.
    """
    facts = table("all_to_all")
    return tuple(_kernel(facts, row) for row in facts["measured"])


def _kernel(facts: dict[str, Any], row: dict[str, Any]) -> Kernel:
    rate = facts["gbit_per_s"] / 8 * NETWORK_REACHED * CHIPS_OF_A_HOST
    network = HostNetwork(rate, HOST_NETWORKS["rdma"].latency_seconds)
    devices = int(row["devices"])
    hosts = devices // CHIPS_OF_A_HOST
    exchange = Exchange(
        devices, hosts, facts["experts"], facts["chosen"], facts["hidden"],
        facts["link_gb_per_s"], network, row["backend"],
    )  # fmt: skip
    links = exchange.dispatch() if row["part"] == "dispatch" else exchange.combine()
    calculated = links.seconds(row["tokens"] * devices)
    return Kernel(row["backend"], row["part"], devices, _published(facts, row, hosts), calculated)


def _published(facts: dict[str, Any], row: dict[str, Any], hosts: int) -> float:
    """Return the published time of a row, from its bandwidth if it states that."""
    if "microseconds" in row:
        return row["microseconds"] / 1e6
    parts = min(hosts, row.get("hosts_of_token", hosts)) if hosts > 1 else int(row["devices"])
    allowed = facts["experts"] * min(1.0, parts / hosts) if hosts > 1 else facts["experts"]
    copies = parts_touched(parts, int(allowed), facts["chosen"])
    size = row["tokens"] * copies * facts["hidden"] * BYTES_OF_PART[row["part"]]
    return size / (row["gb_per_s"] * 1e9)
