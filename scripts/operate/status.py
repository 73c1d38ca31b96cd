"""`gke-inference status`: what runs where, on which rung, at what price."""

import json

from scripts.shared.engine import Engine, check_stack
from scripts.shared.placements import Placement
from scripts.shared.replica_status import (
    Total,
    find_replicas,
    metrics_of,
    print_prometheus,
    print_replicas,
)
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import JsonOption, StackOption
from twin import daemon
from twin.host.paths import TwinPaths


def as_json(stack: str, replicas: list[Placement], endpoint: str, metrics: dict[str, str]) -> str:
    """Return what `status` shows, as JSON."""
    paid = Total.of(replicas)
    body = {
        "stack": stack,
        "replicas": [one.as_json() for one in replicas],
        "usd_per_hour": paid.usd_per_hour.value,
        "unpriced": paid.unpriced,
        "is_lower_bound": paid.usd_per_hour.at_least,
        "gateway": endpoint,
        "metrics": metrics,
    }
    return json.dumps(body, indent=1)


def status(stack: StackOption = "local", is_json: JsonOption = False) -> None:
    """Show the replicas of a stack on the twin: location, rung and hourly price."""
    paths = TwinPaths.default()
    check_stack(stack)
    if daemon.ports(paths) is None:
        raise CommandError("the twin is not running; start it with make up")
    engine = Engine(paths)
    outputs = engine.outputs(stack) if stack in engine.stacks() else {}
    if "endpoint" not in outputs:
        raise CommandError(
            f"--stack: must be a stack that is up on the twin, got {stack!r}; run make up"
            f" STACK={stack}"
        )
    replicas = find_replicas(paths)
    if is_json:
        print(as_json(stack, replicas, outputs["endpoint"], metrics_of(paths)))
        return
    print_replicas(replicas)
    console.print(f"Gateway  {outputs['endpoint']}")
    print_prometheus(paths)
