"""Disaggregated serving: separate replicas for prefill and decode."""

from pydantic import Field

from infra.stack.fields import Name, StackModel


class PrefillReplicas(StackModel):
    """Number of prefill replicas in each region."""

    min: int = Field(ge=1, le=1000)
    """Minimum number of replicas."""
    max: int = Field(ge=1, le=1000)
    """Maximum number of replicas."""


class PrefillAutoscaling(StackModel):
    """Target load of each prefill replica. The target that requires the most replicas applies."""

    queue_depth: int = Field(default=5, ge=1, le=10_000)
    """Prompts that wait in a replica. The time to the first token grows with them."""
    running_requests: int | None = Field(default=None, ge=1, le=10_000)
    """Prompts that a replica computes at once. Reacts before prompts wait; not used by default."""


class Prefill(StackModel):
    """The replicas that run prefill. The model's own replicas run decode."""

    replicas: PrefillReplicas
    """Replicas in each region."""
    autoscaling: PrefillAutoscaling = PrefillAutoscaling()
    """Targets of their autoscaler, which is independent of that of decode replicas."""
    capacity: Name | None = None
    """Name of the capacity that they run on. By default, the model's capacity."""


class Disaggregated(StackModel):
    """Runs the prefill of long prompts on separate replicas, to keep decode fast."""

    prefill: Prefill
    """The prefill replicas."""
    threshold_tokens: int = Field(default=256, ge=0, le=10_000_000)
    """Minimum number of uncached prompt tokens for a request to go to a prefill replica."""
