"""The models of a stack as lines of a bill, and their roles."""

from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.replicas import ReplicaRange

SERVE = "serve"
"""Role of replicas that answer requests."""
STANDBY = "standby"
"""Role of replicas on GPUs that are kept beside those on TPUs."""
PREFILL = "prefill"
"""Role of replicas that compute prompts for others."""
BUFFER = "buffer"
"""Role of nodes that are kept empty."""


@dataclass(frozen=True)
class Served:
    """Model, or one of its roles, in one region."""

    model: str
    region: str
    rungs: tuple[Rung, ...]
    """Rungs in the order in which they are tried."""
    replicas: ReplicaRange
    role: str = SERVE

    @property
    def shares(self) -> tuple[tuple[int, float], ...]:
        """Larger minima of the schedule, each with its share of a week."""
        return () if self.replicas.schedule is None else self.replicas.schedule.shares

    def mean_at_least(self, replicas: int) -> float:
        """Return the mean over a week of a number of replicas, or of the minimum if that is larger.

        Returns:
            A whole number without a schedule.
        """
        usual = max(replicas, self.replicas.min)
        return usual + sum(share * max(0, least - usual) for least, share in self.shares)
