"""The demand for the first replica of a model that scales to zero, as an expression.

It exists at all times, also without an engine: an autoscaler at zero replicas has no other metric.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from gke_inference.catalogue.engines import Metrics
from gke_inference.catalogue.input_error import InputError
from gke_inference.settings import Settings

DemandSeconds = Annotated[int, Field(ge=60, le=86_400)]
"""Time for which a model without requests keeps its last replica."""
_SCRAPES = 3
"""Least scrapes in the idle time: an increase needs two samples, and one may be late."""
_OF_POD = "-[a-z0-9]+(-[a-z0-9]+)?"
"""What follows the name of a Deployment in that of a pod: the hash of the ReplicaSet and a suffix.

A long name is cut, and the suffix then follows without a hyphen. Pods of a model whose name begins
with that of another one have more parts.
"""


class Demand(Settings):
    """What is demand for a model, and for how long."""

    idle_seconds: DemandSeconds
    """Seconds after the last request for which the model keeps a replica. At least 60, and three
    times the interval of scrapes."""
    relay_name: str
    """Deployment of the relay (`PoolFallback` with `wait`) that gets the requests for a model
    without engines."""


def idle_problems(where: str, idle_seconds: int, scrape_seconds: int) -> Iterator[InputError]:
    """Yield an idle time in which too few scrapes show that there were requests."""
    if idle_seconds < _SCRAPES * scrape_seconds:
        rule = f"must be at least {_SCRAPES} times the interval of scrapes, {scrape_seconds} s"
        yield InputError(where, rule, idle_seconds)


def demanded_replicas(
    demand: Demand, engine: Metrics, namespace: str, deployments: Sequence[str]
) -> str:
    """Return an expression that is 1 while a model has or recently had requests, and else 0.

    Requests that find no engine are counted by the relay, the others by engines. A request that
    takes longer than the idle time is in no counter, but runs or waits.

    Args:
        demand: The demand.
        engine: Metrics of the engine.
        namespace: Namespace of the model.
        deployments: Deployments of its engines.
    """
    relay, engines = (
        f'{{namespace="{namespace}",pod=~"({"|".join(names)}){_OF_POD}"}}'
        for names in ([demand.relay_name], deployments)
    )
    window = f"[{demand.idle_seconds}s]"
    terms = [
        f"sum(relay_waiting_requests{relay})",
        f"sum(increase(relay_wakes_total{relay}{window}))",
        f"sum(increase({engine.answered}{engines}{window}))",
        *(f"sum({name}{engines})" for name in engine.busy),
    ]
    return "(" + " + ".join(f"({term} or vector(0))" for term in terms) + ") > bool 0"
