"""Disaggregated serving: separate replicas for prefill and decode."""

from pydantic import Field

from gke_inference.intent.replicas import ReplicaRange
from gke_inference.intent.settings import SomeReplicas
from gke_inference.serving.settings import Requests
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Name,
)


class PrefillAutoscaling(Settings):
    """Target load of each prefill replica. The target that requires the most replicas applies."""

    queue_depth: Requests = 5
    """Prompts that wait in a replica. The time to the first token grows with them."""
    running_requests: Requests | None = None
    """Prompts that a replica computes at once. Reacts before prompts wait; not used by default."""


class PrefillReplicas(ReplicaRange):
    """Replicas that run prefill in each region."""

    min: SomeReplicas
    """Minimum number of replicas."""


class Prefill(Settings):
    """The replicas that run prefill. The model's own replicas run decode."""

    replicas: PrefillReplicas
    """Replicas in each region."""
    autoscaling: PrefillAutoscaling = PrefillAutoscaling()
    """Targets of their autoscaler, which is independent of that of decode replicas."""
    capacity: Name | None = None
    """Name of the capacity that they run on. By default, the model's capacity."""


class Disaggregated(Settings):
    """Runs the prefill of long prompts on separate replicas, to keep decode fast."""

    prefill: Prefill
    """The prefill replicas."""
    threshold_tokens: int = Field(default=256, ge=0, le=10_000_000)
    """Minimum number of uncached prompt tokens for a request to go to a prefill replica."""
