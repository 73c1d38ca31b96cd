"""Settings of clients, which stacks and the gate of a Gateway share, and the inputs of a gate."""

from typing import Annotated, Final, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.guardrails.settings import ArmorCallArgs, Failure, GuardTimeoutMs, Phase
from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import (
    Context,
    ForwardedHops,
    HttpsUrl,
    ModelName,
    MonthlyUsd,
    Name,
    UsdPerMillion,
)

from .certificates import ClientCertificatesArgs
from .people import ClientPeopleArgs

ANONYMOUS: Final = "anonymous"
"""Team of requests without a credential."""

Limit = Annotated[int, Field(ge=1, le=10**12)]
"""A limit of requests or tokens. Anything higher is effectively unlimited."""
Threshold = Annotated[float, Field(gt=0, le=1)]
"""Cosine similarity of two questions."""
TtlSeconds = Annotated[int, Field(ge=1, le=30 * 24 * 60 * 60)]
"""How long an answer is cached."""
GateReplicas = Annotated[int, Field(ge=1, le=20)]
"""Replicas of the program that checks each request."""
THRESHOLD: Final = 0.95
TTL_SECONDS: Final = 24 * 60 * 60
REPLICAS: Final = 2


class Priority(Word):
    """Priority of a team's requests when a pool is at capacity."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class TeamLimits(Settings):
    """Limits of a team in one region. An omitted limit means unlimited."""

    requests_per_minute: Limit | None = None
    """Requests per minute."""
    tokens_per_minute: Limit | None = None
    """Tokens per minute, prompts and answers combined."""


class TeamSettings(TeamLimits):
    """One team of clients. An omitted limit means unlimited."""

    acts_for_teams: bool = False
    """Whether its keys may name another team in `x-gki-on-behalf-of`, whose models, limits,
    guardrails and cached answers then apply; for the workers of batches and streams."""
    cached_answers: bool = False
    """Whether members may receive cached answers to requests of any member, through the cache of
    answers."""
    guardrails: tuple[Name, ...] = ()
    """Guardrails in the cluster (NeMo) that check its requests to every model, in addition to those
    of the model."""
    models: Annotated[tuple[ModelName, ...], Field(min_length=1)] | None = None
    """Models and adapters that it may request. All by default."""
    monthly_usd: MonthlyUsd | None = None
    """Maximum cost of its tokens in a calendar month (UTC), at the prices of the models."""
    priority: Priority = Priority.INTERACTIVE
    """Priority of its requests to every model. `batch` requests are rejected first when a model is
    at capacity."""
    tokens_per_month: Limit | None = None
    """Tokens per calendar month (UTC), prompts and answers combined."""


class TokenPrice(Settings):
    """Price of a model's tokens."""

    input_usd_per_million: UsdPerMillion
    """US dollars per million prompt tokens."""
    output_usd_per_million: UsdPerMillion
    """US dollars per million answer tokens."""


class TokenIssuer(Settings):
    """An issuer of JSON Web Tokens (JWTs), such as a company's identity provider."""

    audiences: tuple[str, ...] = Field(min_length=1)
    """Accepted values of `aud`. A token must have one of them."""
    issuer: HttpsUrl
    """Expected value of `iss`."""
    jwks_uri: HttpsUrl
    """URL of its public keys."""
    claim: str = Field(default="team", min_length=1, max_length=200)
    """Claim that names the team."""
    header: str = Field(default="authorization", pattern=r"^[a-z][-a-z0-9]{0,63}$")
    """Header that carries the token. `x-goog-iap-jwt-assertion` for Identity-Aware Proxy."""
    teams: dict[str, Name] = Field(default_factory=dict[str, str])
    """Team for each value of the claim. By default, the value is the name of the team."""


class StoreNodes(Word):
    """Node types of a Valkey store.

    docs.cloud.google.com/memorystore/docs/valkey/instance-node-specification.
    """

    NANO = "shared-core-nano"
    SMALL = "standard-small"
    MEDIUM = "highmem-medium"
    LARGE = "highmem-xlarge"


StoreReplicas = Annotated[int, Field(ge=0, le=5)]
"""Replicas of a store that take over if the zone of the primary fails."""


class TimeUnit(Word):
    """Units of the interval of an API product's quota."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class ApigeeProduct(Settings):
    """An API product: developers subscribe their apps to it in Apigee, and each app gets a key."""

    requests: Limit
    """Requests of each app per interval."""
    interval: int = Field(default=1, ge=1, le=1000)
    """Length of the interval in `time_unit`."""
    needs_approval: bool = False
    """Whether keys work only once they are approved in Apigee."""
    time_unit: TimeUnit = TimeUnit.MINUTE
    """Unit of the interval."""


ApigeeTimeoutMs = Annotated[int, Field(ge=10, le=10_000)]
"""Milliseconds that Apigee may take for each message."""
APIGEE_TIMEOUT_MS: Final = 1000


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
    replicas: NotRequired[GateReplicas]
    """Replicas of the callout. Default: 2."""
    store: NotRequired[pulumi.Input[str]]
    """`HOST:PORT` of the counters that all replicas share: `CounterStore.address`. Default: none,
    each replica enforces its share of each limit."""
    store_certificates: NotRequired[pulumi.Input[str]]
    """CA certificates of the store: `CounterStore.certificates`. Default: none, the store has no
    TLS."""
