"""The replicas on the twin as a table: where they run, on which rung, at what price."""

from dataclasses import dataclass

from planner.amount import UNKNOWN, Amount, total
from scripts.shared.placements import Placement, placements
from scripts.terminal.console import CommandError, console
from scripts.terminal.tables import Column, Listing, figure, print_table
from twin.cluster import lifecycle as clusters
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError


@dataclass(frozen=True)
class Total:
    """What replicas cost together."""

    usd_per_hour: Amount
    unpriced: int
    """Replicas on a node whose price is not known."""

    @classmethod
    def of(cls, replicas: list[Placement]) -> "Total":
        """Return the total of some replicas."""
        on_nodes = [one for one in replicas if one.rung]
        unpriced = sum(1 for one in on_nodes if one.usd_per_hour is None)
        return cls(total(one.usd_per_hour or UNKNOWN for one in on_nodes), unpriced)


def find_replicas(paths: TwinPaths) -> list[Placement]:
    """Return the replicas on the twin.

    Raises:
        CommandError: A cluster does not answer.
    """
    try:
        return placements(paths)
    except KubeError as error:
        raise CommandError(f"a cluster of the twin does not answer: {error.message}") from error


def replica_table(replicas: list[Placement]) -> Listing:
    """Return the table of replicas."""
    table = Listing(
        "MODEL", Column("CLUSTER", spare=2), Column("REPLICA", spare=1), "STATE", "RUNG",
        Column("ZONE", spare=2), figure("$/H"),
    )  # fmt: skip
    for one in replicas:
        cost = "?" if one.usd_per_hour is None else f"{one.usd_per_hour:.2f}"
        table.add_row(one.model, one.cluster, one.pod, one.state, one.rung, one.zone, cost)
    return table


def print_replicas(replicas: list[Placement]) -> None:
    """Print replicas with their rung and price, and what they cost together."""
    print_table(replica_table(replicas))
    paid = Total.of(replicas)
    note = f"; {paid.unpriced} without a price" if paid.unpriced else ""
    shown = paid.usd_per_hour.text("$.2f", "at least ")
    console.print(f"Accelerator nodes at list price: {shown} per hour{note}\n")


def metrics_of(paths: TwinPaths) -> dict[str, str]:
    """Return the URL of each cluster's Prometheus, by `LOCATION--NAME`."""
    addresses = {folder.name: address_of(folder) for folder in clusters.folders(paths)}
    return {name: f"http://{url}" for name, url in addresses.items() if url is not None}


def print_prometheus(paths: TwinPaths) -> None:
    """Print the URL of each cluster's Prometheus."""
    for cluster, url in metrics_of(paths).items():
        location, _, name = cluster.partition("--")
        console.print(f"Metrics  {url}  (Prometheus of {name} in {location})")
