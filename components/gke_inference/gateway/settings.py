"""Settings of gateways, which stacks and components share."""

from typing import Annotated, Final, NotRequired, TypedDict, TypeVar

from pydantic import Field

from gke_inference.catalogue.pickers import PickerLineName
from gke_inference.settings import Word

LONGEST_WAIT_SECONDS: Final = 9
"""Longest time that a request may wait in a picker. The longest documented timeout of a load
balancer's callout is 10 seconds, and whether it applies to pickers is not documented
(docs.cloud.google.com/service-extensions/docs/quotas)."""
RequestPercent = Annotated[int, Field(ge=0, le=100)]
"""Share of the requests, of a canary or a second picker."""
LogPercent = Annotated[float, Field(ge=0, le=100)]
"""Percentage of requests in the access log of a load balancer."""
LOG_PERCENT: Final = 100.0
PickerReplicas = Annotated[int, Field(ge=1, le=5)]
"""Endpoint pickers per model."""
Priority = Annotated[int, Field(ge=0, le=1_000_000)]
"""Priority when the queues are full."""
PRIORITY: Final = 10
DrainSeconds = Annotated[int, Field(ge=0, le=600)]
"""Time that a picker continues to answer after its end was requested."""
MostQueued = Annotated[int, Field(ge=1, le=100_000)]
"""Requests of a priority that wait in a picker at most."""
SessionHeader = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
"""Lowercase name of a request header."""
_Headers = TypeVar("_Headers")
SessionHeaders = Annotated[_Headers, Field(max_length=8)]
"""Headers with the id of a session, of which the first one that a request has counts."""
SessionIdleSeconds = Annotated[int, Field(ge=1, le=86_400)]
"""Time after which an unused session is forgotten."""
RequestsPerSecond = Annotated[float, Field(gt=0, le=100_000)]
"""Requests that begin in a second."""
MeanTokens = Annotated[int, Field(ge=1, le=10_000_000)]
"""Mean number of tokens."""
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


class NextPickerArgs(TypedDict):
    """A second picker for each pool, of the line to move to."""

    line: PickerLineName
    """Its line."""
    percent: NotRequired[RequestPercent]
    """Percentage of requests that it gets. Default: 0."""


class PickersArgs(TypedDict):
    """The endpoint pickers of all pools."""

    drain_seconds: NotRequired[DrainSeconds]
    """Line `llm-d-router`: seconds that a picker continues to answer after its end was requested.
    Default: 30."""
    line: NotRequired[PickerLineName]
    """Line of the picker: `gie`, of gateway-api-inference-extension, or `llm-d-router`, its
    successor. Default: `gie`."""
    max_queued: NotRequired[MostQueued]
    """With `fairnessWaitSeconds`: requests of a priority that wait at most; a picker rejects more
    with 429. Default: 5,000 with line `llm-d-router`, and no limit with `gie`."""
    orders_sessions: NotRequired[bool]
    """With `fairnessWaitSeconds`: whether the waiting requests of a team go in the order that a
    `ClientGate` with `sessionHeaders` gives them. Not with `routing.predictsLatency`, which reads
    the same header. Default: false, in order of arrival."""
    next: NotRequired[NextPickerArgs]
    """Second picker for each pool, over the same replicas, with a share of the requests. Not with a
    canary. Default: none."""


class PeakArgs(TypedDict):
    """Most requests of a model, which determine the size of its picker."""

    answer_tokens: MeanTokens
    """Mean tokens of an answer."""
    prompt_tokens: MeanTokens
    """Mean tokens of a prompt."""
    replicas: Annotated[int, Field(ge=1)]
    """Most replicas of the model."""
    requests_per_second: RequestsPerSecond
    """Requests that begin in a second."""


class RoutingArgs(TypedDict):
    """How the picker of line `llm-d-router` chooses replicas of a model."""

    predicts_latency: NotRequired[bool]
    """Whether latencies are predicted for each replica, and requests with the headers
    `x-llm-d-slo-ttft-ms` and `x-llm-d-slo-tpot-ms` go where they are met. All replicas must have
    the same hardware. Default: false."""
    session_header: NotRequired[SessionHeader]
    """Header with the id of a session, whose requests go to the replica that answered the last one.
    Default: no sessions."""
    session_idle_seconds: NotRequired[SessionIdleSeconds]
    """Seconds after which an unused session is forgotten. Default: 300."""
