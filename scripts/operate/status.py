"""`gke-inference status`: the replicas of a stack, with location, rung and price."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scripts.backend.choose import open_backend
from scripts.backend.drift import Drift
from scripts.shared.clusters import close
from scripts.shared.dashboard_files import publish
from scripts.shared.engine import check_stack
from scripts.shared.placements import Placement
from scripts.shared.replica_status import (
    Total,
    find_replicas,
    own_namespace,
    print_prometheus,
    print_replicas,
)
from scripts.shared.schedule_status import Scheduled, scheduled_now
from scripts.shared.weights_status import Waiting, find_waiting, print_waiting
from scripts.terminal.console import console
from scripts.terminal.options import StackOption, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.where import OnOption, Where
from twin.host.paths import TwinPaths


def as_data(
    stack: str,
    replicas: list[Placement],
    endpoint: str,
    metrics: dict[str, str],
    waiting: Sequence[Waiting] = (),
    drift: Sequence[Drift] = (),
    scheduled: Sequence[Scheduled] = (),
) -> dict[str, Any]:
    """Return what `status` shows, as data."""
    paid = Total.of(replicas)
    return {
        "stack": stack,
        "replicas": [one.as_json() for one in replicas],
        "usd_per_hour": paid.usd_per_hour.value,
        "missing": [str(one) for one in paid.usd_per_hour.missing],
        "gateway": endpoint,
        "metrics": metrics,
        "waiting_for_weights": [one.as_json() for one in waiting],
        "drift": [one.as_json() for one in drift],
        "scheduled": [one.as_json() for one in scheduled],
    }


def status(
    stack: StackOption = "local", on: OnOption = Where.TWIN, output: OutputOption = Output.TABLE
) -> None:
    """Show the replicas of a deployed stack: location, rung and hourly price.

    On the twin, also names the objects of the stack that somebody deleted or changed.
    """
    check_stack(stack)
    plan = plan_of(stack)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        endpoint = backend.endpoint()
        clusters = backend.clusters()
        replicas = find_replicas(clusters, own_namespace(plan.names))
        waiting = find_waiting(clusters, plan.names.namespace())
        metrics = dict(backend.metrics())
        drift = backend.drift()
        close(clusters)
    scheduled = scheduled_now(plan, datetime.now(UTC))
    if output.is_data:
        data = as_data(stack, replicas, endpoint, metrics, waiting, drift, scheduled)
        print_data(data, output)
        return
    print_waiting(waiting, stack, on)
    for each in drift:
        again = f"run make up STACK={stack} again to repair it"
        console.print(f"{each}; {again}", style="yellow", markup=False, soft_wrap=True)
    print_replicas(replicas)
    for each in scheduled:
        console.print(str(each), markup=False, soft_wrap=True)
    console.print(f"Gateway  {endpoint}")
    if on.is_twin:
        for url in publish(plan, TwinPaths.default()).values():
            console.print(f"Watch    {url}", soft_wrap=True)
    print_prometheus(metrics)
