"""`gke-inference status`: what runs where, on which rung, at what price."""

from typing import Annotated, Any

import typer

from scripts.console import CommandError, console
from scripts.engine import Engine, check_stack
from scripts.placements import Placement, placements
from scripts.tables import Column, Listing, figure, print_table
from twin import clusters, daemon
from twin.gke.monitoring.server import address_of
from twin.kube import KubeError
from twin.paths import TwinPaths


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
        sign = "≥ " if one.is_lower_bound else ""
        cost = "" if one.usd_per_hour is None else f"{sign}{one.usd_per_hour:.2f}"
        table.add_row(one.model, one.cluster, one.pod, one.state, one.rung, one.zone, cost or "?")
    return table


def print_status(paths: TwinPaths, outputs: dict[str, Any]) -> None:
    """Print the replicas of a stack with their rung and price, and what they cost together.

    Raises:
        CommandError: a cluster does not answer.
    """
    try:
        found = placements(paths)
    except KubeError as error:
        raise CommandError(f"a cluster of the twin does not answer: {error.message}") from error
    print_table(_table(found))
    total = sum(one.usd_per_hour or 0.0 for one in found)
    unpriced = sum(1 for one in found if one.rung and one.usd_per_hour is None)
    note = f", {unpriced} without a price in the table" if unpriced else ""
    sign = "at least " if any(one.is_lower_bound for one in found) else ""
    console.print(f"Accelerator nodes at list price: {sign}${total:.2f} an hour{note}\n")
    del outputs


def print_prometheus(paths: TwinPaths) -> None:
    """Print where the metrics of each cluster can be queried."""
    for folder in clusters.folders(paths):
        address = address_of(folder)
        if address is not None:
            location, _, name = folder.name.partition("--")
            console.print(f"Metrics  http://{address}  (Prometheus of {name} in {location})")


def status(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")] = (
        "local"
    ),
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
    print_status(paths, outputs)
    console.print(f"Gateway  {outputs['endpoint']}")
    print_prometheus(paths)
