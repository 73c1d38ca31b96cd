"""Settings of autoscalers, which stacks and `Autoscaling` share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import Settings

ScaleInDelay = Annotated[int, Field(ge=0, le=3600)]
"""Seconds that a replica must be unneeded before the autoscaler removes it."""
ScaleInInterval = Annotated[int, Field(ge=1, le=1800)]
"""Seconds between the removal of two replicas; each replica is drained during this time."""
SCALE_IN_DELAY_SECONDS: Final = 300
SCALE_IN_EVERY_SECONDS: Final = 120
Requests = Annotated[int, Field(ge=1, le=10_000)]
"""Target number of requests of a replica."""


class ScalingTargets(Settings):
    """Target load of each replica. The target that requires the most replicas applies."""

    queue_depth: Requests = 5
    """Waiting requests per replica. Optimizes throughput and cost."""
    kv_cache_percent: int = Field(default=80, ge=10, le=95)
    """Average KV cache usage, in percent. Suits long contexts."""
    running_requests: Requests | None = None
    """Running requests per replica. Optimizes latency; not used by default."""
