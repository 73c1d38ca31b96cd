"""`gke-inference status`: the replicas of a stack, with location, rung and price."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from infra.plan import Plan
from scripts.backend.choose import open_backend
from scripts.backend.drift import Drift
from scripts.shared.clusters import close
from scripts.shared.dashboard_files import publish
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
from scripts.terminal.options import StackOption, check_stack, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.where import OnOption, Where
from twin.host.paths import TwinPaths


@dataclass(frozen=True)
class FromZero:
    """A model that has no replica while nobody needs it."""

    model: str
    region: str
    idle_seconds: int
    """Seconds without a request after which its last replica goes."""

    def __str__(self) -> str:
        """Return the line of `status`."""
        return (
            f"From zero {self.model} in {self.region}: a request starts the first replica; the last"
            f" one goes after {self.idle_seconds} s without any"
        )


def from_zero_of(plan: Plan) -> list[FromZero]:
    """Return the models of a stack with `replicas.min: 0`."""
    return [
        FromZero(one.name, one.region, one.from_zero.idle_seconds)
        for every in plan.models.values()
        for one in every
        if one.is_from_zero
    ]


def as_data(
    stack: str,
    replicas: list[Placement],
    endpoint: str,
    metrics: dict[str, str],
    waiting: Sequence[Waiting] = (),
    drift: Sequence[Drift] = (),
    scheduled: Sequence[Scheduled] = (),
    from_zero: Sequence[FromZero] = (),
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
        "from_zero": [asdict(one) for one in from_zero],
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
    scheduled, from_zero = scheduled_now(plan, datetime.now(UTC)), from_zero_of(plan)
    if output.is_data:
        data = as_data(stack, replicas, endpoint, metrics, waiting, drift, scheduled, from_zero)
        print_data(data, output)
        return
    print_waiting(waiting, stack, on)
    for each in drift:
        again = f"run make up STACK={stack} again to repair it"
        console.print(f"{each}; {again}", style="yellow", markup=False, soft_wrap=True)
    print_replicas(replicas)
    for each in (*scheduled, *from_zero):
        console.print(str(each), markup=False, soft_wrap=True)
    console.print(f"Gateway  {endpoint}")
    if on.is_twin:
        for url in publish(plan, TwinPaths.default()).values():
            console.print(f"Watch    {url}", soft_wrap=True)
    print_prometheus(metrics)
