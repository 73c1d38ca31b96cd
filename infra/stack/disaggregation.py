"""Prefill apart from decode: prompts are computed by other replicas than answers."""

from pydantic import Field

from infra.stack.base.fields import Name, StackModel


class PrefillReplicas(StackModel):
    """How many replicas compute prompts, in each region."""

    min: int = Field(ge=1, le=1000)
    """Replicas that always run."""
    max: int = Field(ge=1, le=1000)
    """Replicas the autoscaler may reach."""


class Prefill(StackModel):
    """The replicas that compute prompts; those of the model itself answer."""

    replicas: PrefillReplicas
    """Replicas in each region; they follow their queue."""
    capacity: Name | None = None
    """Name of the capacity they run on; the model's by default."""


class Disaggregated(StackModel):
    """Computes long prompts on replicas of their own, so that they do not hold up answers."""

    prefill: Prefill
    """The replicas that compute prompts."""
    threshold_tokens: int = Field(default=256, ge=0, le=10_000_000)
    """Tokens of a prompt that are in no cache from which on it goes to a prefill replica."""
