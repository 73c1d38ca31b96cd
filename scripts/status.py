"""`gke-inference status`: what runs where, on which rung, at what price."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from planner.amount import UNKNOWN, Amount, total
from scripts.console import CommandError, console
from scripts.engine import Engine, check_stack
from scripts.placements import Placement, placements
from scripts.tables import Column, Listing, figure, print_table
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError


def chat_model(outputs: dict[str, Any]) -> str:
    """Return the first model of a stack that generates text.

    Raises:
        CommandError: there is none.
    """
    for name, facts in outputs["models"].items():
        if facts.get("task", "generate") == "generate":
            return name
    raise CommandError("the stack has no model that generates text")


def _table(found: list[Placement]) -> Listing:
    table = Listing(
        "MODEL", Column("CLUSTER", spare=2), Column("REPLICA", spare=1), "STATE", "RUNG",
        Column("ZONE", spare=2), figure("$/H"),
    )  # fmt: skip
    for one in found:
        cost = "?" if one.usd_per_hour is None else f"{one.usd_per_hour:.2f}"
        table.add_row(one.model, one.cluster, one.pod, one.state, one.rung, one.zone, cost)
    return table


@dataclass(frozen=True)
class Sum:
    """What replicas cost together."""

    usd_per_hour: Amount
    unpriced: int
    """Replicas on a node whose price is not known."""

    @classmethod
    def of(cls, found: list[Placement]) -> "Sum":
        """Return the sum of some replicas."""
        on_nodes = [one for one in found if one.rung]
        unpriced = sum(1 for one in on_nodes if one.usd_per_hour is None)
        return cls(total(one.usd_per_hour or UNKNOWN for one in on_nodes), unpriced)


def replicas(paths: TwinPaths) -> list[Placement]:
    """Return the replicas on the twin.

    Raises:
        CommandError: a cluster does not answer.
    """
    try:
        return placements(paths)
    except KubeError as error:
        raise CommandError(f"a cluster of the twin does not answer: {error.message}") from error


def print_status(found: list[Placement]) -> None:
    """Print replicas with their rung and price, and what they cost together."""
    print_table(_table(found))
    paid = Sum.of(found)
    note = f", {paid.unpriced} without a price in the table" if paid.unpriced else ""
    shown = paid.usd_per_hour.text("$.2f", "at least ")
    console.print(f"Accelerator nodes at list price: {shown} an hour{note}\n")


def as_json(stack: str, found: list[Placement], endpoint: str, metrics: dict[str, str]) -> str:
    """Return what `status` shows, as JSON."""
    paid = Sum.of(found)
    body = {
        "stack": stack,
        "replicas": [one.as_json() for one in found],
        "usd_per_hour": paid.usd_per_hour.value,
        "unpriced": paid.unpriced,
        "is_lower_bound": paid.usd_per_hour.at_least,
        "gateway": endpoint,
        "metrics": metrics,
    }
    return json.dumps(body, indent=1)


def metrics_of(paths: TwinPaths) -> dict[str, str]:
    """Return where the metrics of each cluster can be queried, by `LOCATION--NAME`."""
    found = {folder.name: address_of(folder) for folder in clusters.folders(paths)}
    return {name: f"http://{address}" for name, address in found.items() if address is not None}


def print_prometheus(paths: TwinPaths) -> None:
    """Print where the metrics of each cluster can be queried."""
    for cluster, url in metrics_of(paths).items():
        location, _, name = cluster.partition("--")
        console.print(f"Metrics  {url}  (Prometheus of {name} in {location})")


def status(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")] = (
        "local"
    ),
    is_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """Show the replicas of a stack on the twin: where, on which rung, at what price an hour."""
    paths = TwinPaths.default()
    check_stack(stack)
    if daemon.ports(paths) is None:
        raise CommandError("the twin does not run: start it with make up")
    engine = Engine(paths)
    outputs = engine.outputs(stack) if stack in engine.stacks() else {}
    if "endpoint" not in outputs:
        raise CommandError(f"{stack} is not up on the twin: make up STACK={stack}")
    found = replicas(paths)
    if is_json:
        print(as_json(stack, found, outputs["endpoint"], metrics_of(paths)))
        return
    print_status(found)
    console.print(f"Gateway  {outputs['endpoint']}")
    print_prometheus(paths)
