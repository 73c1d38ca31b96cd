"""Settings of gateways, which stacks and components share."""

from typing import Annotated, Final, TypedDict

from pydantic import Field

from gke_inference.settings import Word

LONGEST_WAIT_SECONDS: Final = 9
"""Longest time that a request may wait in a picker. The longest documented timeout of a load
balancer's callout is 10 seconds, and whether it applies to pickers is not documented
(docs.cloud.google.com/service-extensions/docs/quotas)."""
CanaryPercent = Annotated[int, Field(ge=0, le=100)]
"""Share of the requests of a canary."""
LogPercent = Annotated[float, Field(ge=0, le=100)]
"""Percentage of requests in the access log of a load balancer."""
LOG_PERCENT: Final = 100.0
PickerReplicas = Annotated[int, Field(ge=1, le=5)]
"""Endpoint pickers per model."""
Priority = Annotated[int, Field(ge=0, le=1_000_000)]
"""Priority when the queues are full."""
PRIORITY: Final = 10
RequestsPerMinute = Annotated[int, Field(ge=1, le=1_000_000)]
"""Requests per minute from one IP address to one backend before 429 responses."""
REQUESTS_PER_MINUTE: Final = 600
RouterReplicas = Annotated[int, Field(ge=1, le=20)]
"""Replicas of the router, and of the model catalog."""
TtlSeconds = Annotated[int, Field(ge=5, le=86_400)]
"""TTL of DNS records."""
TTL_SECONDS: Final = 300
UtilizationPercent = Annotated[int, Field(ge=1, le=100)]
"""Average KV cache use of a region's replicas above which requests go to the next region."""
UTILIZATION_PERCENT: Final = 60
WaitSeconds = Annotated[int, Field(ge=1, le=LONGEST_WAIT_SECONDS)]
"""Time after which a request that waits in a picker is rejected."""


class Exposure(Word):
    """Networks that can reach an endpoint."""

    EXTERNAL = "external"
    INTERNAL = "internal"


class PickerFailure(Word):
    """Behavior while a picker is unavailable."""

    CLOSED = "closed"
    OPEN = "open"


class ProxyCallersArgs(TypedDict):
    """Allowed ingress to pods behind the gateway, as network policies."""

    metrics_namespace: str
    """Namespace of the Managed Prometheus collectors."""
    proxies_cidr: str
    """Range of the load balancer's proxies: the region's proxy-only subnet."""
