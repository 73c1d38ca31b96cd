"""Number of replicas of a model in a region, which stacks and `Autoscaling` share."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.intent.schedule import ReplicaSchedule, schedule_problems
from gke_inference.intent.settings import ReplicaCount, SomeReplicas
from gke_inference.settings import Settings


class ReplicaRange(Settings):
    """Number of replicas in each region."""

    min: ReplicaCount
    """Minimum number of replicas. 0 if the model needs none while nobody asks it."""
    max: SomeReplicas
    """Maximum number of replicas that the autoscaler creates."""
    schedule: ReplicaSchedule | None = None
    """Hours of the week with a larger minimum. By default, `min` applies at all times."""


def range_problems(where: str, replicas: ReplicaRange) -> Iterator[InputError]:
    """Yield a minimum of replicas above the maximum, and problems of the schedule."""
    if replicas.min > replicas.max:
        yield InputError(join(where, "min"), f"must be at most max ({replicas.max})", replicas.min)
    elif replicas.schedule is not None:
        at = join(where, "schedule")
        yield from schedule_problems(at, replicas.schedule, replicas.min, replicas.max)
