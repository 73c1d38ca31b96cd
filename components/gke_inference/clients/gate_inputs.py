"""Inputs of the gate of a Gateway."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.gateway.settings import SessionHeader, SessionHeaders
from gke_inference.guardrails.settings import ArmorCallArgs, Failure, GuardTimeoutMs, Phase
from gke_inference.intent.settings import StreamIdleSeconds
from gke_inference.settings.fields import Context, ForwardedHops

from .certificates import ClientCertificatesArgs
from .people import ClientPeopleArgs
from .settings import (
    GateReplicas,
    TeamSettings,
    Threshold,
    TokenIssuer,
    TokenPrice,
    TtlSeconds,
)


class AnswerCacheArgs(TypedDict):
    """Semantic cache: a team gets a cached answer to a question with the same meaning."""

    embeddings_model: str
    """Model that computes the embeddings of questions, by its API name."""
    embeddings_url: str
    """Base URL of that model's API without `/v1`: `http://POOL.NAMESPACE.svc:8000`."""
    models: Annotated[list[str], Field(min_length=1)]
    """Models and adapters whose answers are cached."""
    store: pulumi.Input[str]
    """`HOST:PORT` of the answer store: `AnswerStore.address`."""
    store_certificates: NotRequired[pulumi.Input[str]]
    """CA certificates of the store: `AnswerStore.certificates`. Default: none, the store has no
    TLS."""
    threshold: NotRequired[Threshold]
    """Minimum cosine similarity of two questions for them to share an answer. Default: 0.95."""
    ttl_seconds: NotRequired[TtlSeconds]
    """How long an answer is cached, in seconds. Default: one day."""


class ClientModelArgs(TypedDict):
    """A model as clients request it."""

    pool_name: str
    """Kubernetes name of its pool, whose objectives a team's requests use."""
    adapters: NotRequired[list[str]]
    """Adapters that clients may request instead of it."""


class ClientGuardArgs(TypedDict):
    """A service that checks prompts and answers (`NemoGuardrails`)."""

    failure: Failure
    """While it returns no verdict, `closed` rejects texts; `open` lets them pass and counts
    them."""
    phases: Annotated[list[Phase], Field(min_length=1)]
    """`input` for prompts, `output` for answers."""
    timeout_ms: GuardTimeoutMs
    """Timeout per check in milliseconds."""
    url: str
    """URL of the service."""


class ClientGateArgs(TypedDict):
    """Inputs of `ClientGate`."""

    gate_name: str
    """Kubernetes name of its objects."""
    gateway_name: str
    """Name of the Gateway (`InferenceGateway`)."""
    keys: pulumi.Input[str]
    """Secret with the keys, `projects/P/secrets/S`: `ClientKeys.secret`."""
    models: dict[str, ClientModelArgs]
    """Models behind the Gateway, by the name that clients request."""
    namespace: str
    """Namespace of the Gateway. Extensions can call only services in it."""
    region: str
    """Region of the Gateway, part of each usage record."""
    service_account: str
    """Kubernetes service account that may read the secret (`WorkloadIdentity`)."""
    teams: dict[str, TeamSettings]
    """Teams by name."""
    batches: NotRequired[bool]
    """Whether `/v1/files` and `/v1/batches` are behind the Gateway (`BatchService`). Default:
    false."""
    certificates: NotRequired[ClientCertificatesArgs]
    """Client certificates of teams, behind a `GlobalFront`. Default: none."""
    cache: NotRequired[AnswerCacheArgs]
    """Answer cache, for teams with `cached_answers`. Default: none."""
    cache_salt_paths: NotRequired[dict[str, list[str]]]
    """Paths on which requests to a model or adapter get the salt of their team, by the name that
    clients request, so that no two teams share the prefix cache of its engine. Only for paths on
    which the engine knows the field `cache_salt`. Default: none, teams share the cache."""
    contexts: NotRequired[dict[str, Context]]
    """Contexts of models and adapters in tokens, by the name that clients request. A request
    without a limit reserves what its prompt leaves of the context."""
    default_context: NotRequired[Context]
    """Assumed context of models without one in `contexts`, in tokens. Default: 131072."""
    anonymous: NotRequired[bool]
    """Whether requests without a credential are allowed, as the team `anonymous`. Default:
    false."""
    armor: NotRequired[Annotated[list[ArmorCallArgs], Field(max_length=2)]]
    """Model Armor calls after the callout: a chain has three extensions."""
    forwarded_hops: NotRequired[ForwardedHops]
    """Position of the client's address in X-Forwarded-For, counted from the end. Each load
    balancer on the way appends the address it was called from and its own. Default: 2, for clients
    that connect to the Gateway."""
    guarded_models: NotRequired[dict[str, list[str]]]
    """Guards of models and adapters, by the name that clients request."""
    guards: NotRequired[dict[str, ClientGuardArgs]]
    """Guards that the callout calls, by name. Default: none."""
    issuers: NotRequired[list[TokenIssuer]]
    """Issuers of accepted tokens. Default: none, clients use keys only."""
    people: NotRequired[ClientPeopleArgs]
    """People who sign in with Google, behind a `GlobalFront`. Default: none."""
    prices: NotRequired[dict[str, TokenPrice]]
    """Prices of models and adapters, by name. Default: none, only tokens are counted."""
    replaced_models: NotRequired[dict[str, list[str]]]
    """Models that `when_spent.model` of a team answers for, by team. Required for each team with
    `when_spent`, with a body router that asks (`InferenceGateway.asked_models`)."""
    replicas: NotRequired[GateReplicas]
    """Replicas of the callout. Default: 2."""
    session_headers: NotRequired[SessionHeaders[list[SessionHeader]]]
    """Whether waiting requests of a team get an order in the queues of the pickers, so that its
    programs and sessions have equal parts (`InferenceGateway.pickers.ordersSessions`): the headers
    with the id of a session, of which the first one counts. Requests without one belong to the
    session of their conversation. Default: the order of arrival."""
    stream_idle_seconds: NotRequired[StreamIdleSeconds]
    """Seconds without a byte from an engine or a backend after which a stream that has begun is
    ended with an error. Default: 240."""
    store: NotRequired[pulumi.Input[str]]
    """`HOST:PORT` of the counters that all replicas share: `CounterStore.address`. Default: none,
    each replica enforces its share of each limit."""
    store_certificates: NotRequired[pulumi.Input[str]]
    """CA certificates of the store: `CounterStore.certificates`. Default: none, the store has no
    TLS."""
