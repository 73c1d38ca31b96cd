"""`gke-inference distance`: the region that answers clients of each place, and the round trip."""

from dataclasses import asdict

from gke_inference.catalogue.round_trips import round_trips
from infra.estimate.distances import Answer, Distances, distances
from scripts.terminal.console import console
from scripts.terminal.options import StackOption, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Listing, figure, print_table


def _milliseconds(answer: Answer | None) -> str:
    if answer is None:
        return ""
    return "same place" if answer.milliseconds == 0 else f"{answer.milliseconds} ms"


def print_distances(found: Distances) -> None:
    """Print the nearest region by place, and the next one after its loss."""
    table = Listing(
        "CLIENTS IN", "NEAR", "ANSWERED BY", figure("ROUND TRIP"),
        "THEN", figure("AFTER LOSS", spare=1),
    )  # fmt: skip
    for one in found.by_client:
        then = "" if one.then is None else one.then.region
        table.add_row(
            one.place,
            one.client,
            one.first.region,
            _milliseconds(one.first),
            then,
            _milliseconds(one.then),
        )
    print_table(table)
    console.print(
        "Medians between regions of another provider in or near the same places, "
        f"{round_trips().taken}. THEN: after the loss of the first region. A new connection with "
        "TLS takes three round trips to the first answer."
    )
    for region in found.unknown:
        console.print(f"not compared: {region}, to which no round trips are published")


def distance(stack: StackOption = "local", output: OutputOption = Output.TABLE) -> None:
    """Show the nearest region of a stack for clients of each place, and the round trip to it."""
    found = distances(plan_of(stack))
    if output.is_data:
        print_data(
            {
                "clients": [asdict(each) for each in found.by_client],
                "taken": str(round_trips().taken),
                "unknown": found.unknown,
            },
            output,
        )
        return
    print_distances(found)
