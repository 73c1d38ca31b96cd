"""The replicas of a platform as a table, with location, rung and price."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infra.plan.names import Names
from infra.stack import Layer
from planner.amount import Amount, price_notes, total
from scripts.shared.clusters import Cluster, answering
from scripts.shared.placements import Placement, placements_in
from scripts.terminal.console import console
from scripts.terminal.tables import Column, Listing, figure, print_table
from twin.cluster import lifecycle as clusters
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths


@dataclass(frozen=True)
class Total:
    """Total cost of replicas."""

    usd_per_hour: Amount
    """Total of the known prices, with the items that have none."""

    @classmethod
    def of(cls, replicas: list[Placement]) -> "Total":
        """Return the total of some replicas."""
        return cls(total(one.usd_per_hour for one in replicas if one.usd_per_hour is not None))


def own_namespace(names: Names) -> str | None:
    """Return the namespace of a team's stack, which limits its replicas; None for other stacks."""
    return names.namespace() if names.layer is Layer.SERVING else None


def find_replicas(clusters: Iterable[Cluster], namespace: str | None = None) -> list[Placement]:
    """Return the replicas in clusters, by model, cluster and name.

    Args:
        clusters: Clusters to look at.
        namespace: Namespace of a team to return only its replicas; None for all.

    Raises:
        CommandError: A cluster does not answer.
    """
    found: list[Placement] = []
    for cluster in clusters:
        with answering(cluster):
            found += placements_in(cluster, namespace)
    return sorted(found, key=lambda one: (one.model, one.cluster, one.pod))


def replica_table(replicas: list[Placement]) -> Listing:
    """Return the table of replicas."""
    table = Listing(
        "MODEL", Column("CLUSTER", spare=2), Column("REPLICA", spare=1), "STATE", "RUNG",
        Column("ZONE", spare=2), figure("$/H"),
    )  # fmt: skip
    for one in replicas:
        cost = one.usd_per_hour
        shown = "?" if cost is None or cost.is_unknown else f"{cost:.2f}"
        table.add_row(one.model, one.cluster, one.pod, one.state, one.rung, one.zone, shown)
    return table


def print_replicas(replicas: list[Placement]) -> None:
    """Print replicas with their rung and price, and their total cost."""
    print_table(replica_table(replicas))
    paid = Total.of(replicas)
    console.print(f"Nodes of replicas at list price: {paid.usd_per_hour:$.2f} per hour")
    for text in price_notes([paid.usd_per_hour]):
        console.print(f"[dim]{text}[/dim]")
    console.print()


def metrics_of(paths: TwinPaths) -> dict[str, str]:
    """Return the URL of each cluster's Prometheus, by `LOCATION--NAME`."""
    addresses = {folder.name: address_of(folder) for folder in clusters.folders(paths)}
    return {name: f"http://{url}" for name, url in addresses.items() if url is not None}


def print_prometheus(metrics: Mapping[str, str]) -> None:
    """Print the URL of each cluster's Prometheus, given by `LOCATION--NAME`."""
    for cluster, url in metrics.items():
        location, _, name = cluster.partition("--")
        console.print(f"Metrics  {url}  (Prometheus of {name} in {location})")
