"""Clients: who may call the models, with which limits, and how they authenticate."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import (
    Hostname,
    HttpsUrl,
    ModelName,
    Name,
    RegionName,
    StackModel,
)

_LARGEST = 10**12


class Priority(StrEnum):
    """Priority of a team's requests when a pool is at capacity."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class Counters(StrEnum):
    """Where limits are counted."""

    VALKEY = "valkey"
    LOCAL = "local"


class StoreNodes(StrEnum):
    """Node types of a Valkey store."""

    NANO = "shared-core-nano"
    SMALL = "standard-small"
    MEDIUM = "highmem-medium"
    LARGE = "highmem-xlarge"


class TeamLimits(StackModel):
    """Limits of a team in one region. An omitted limit means unlimited."""

    requests_per_minute: int | None = Field(default=None, ge=1, le=_LARGEST)
    """Requests per minute."""
    tokens_per_minute: int | None = Field(default=None, ge=1, le=_LARGEST)
    """Tokens per minute, prompts and answers combined."""


class ClientTeam(TeamLimits):
    """One team of clients. An omitted limit means unlimited.

    Limits per minute apply in each region, those of a month to all regions together.
    """

    acts_for_teams: bool = False
    """Whether its keys may name another team in `x-gki-on-behalf-of`, whose models, limits,
    guardrails and cached answers then apply; for the workers of batches and streams."""
    cached_answers: bool = False
    """Whether members may receive cached answers to requests of any member, through
    `clients.cache`."""
    guardrails: tuple[Name, ...] = ()
    """Guardrails of kind `nemo` that check its requests to every model, in addition to those of the
    model."""
    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models and adapters that it may request. All by default."""
    monthly_shares: dict[RegionName, float] = Field(default_factory=dict[str, float])
    """Share of each region in the limits of a month, more than 0. All regions together have 1. By
    default, all have the same. A region does not use what is left in another one."""
    monthly_usd: float | None = Field(default=None, gt=0, le=1e9)
    """Maximum cost of its tokens in a calendar month (UTC) in all regions, at `clients.prices`."""
    priority: Priority = Priority.INTERACTIVE
    """Priority of its requests to every model. `batch` requests are rejected first when a model is
    at capacity."""
    regional: dict[RegionName, TeamLimits] = Field(default_factory=dict[str, TeamLimits])
    """Limits per minute in single regions. Each replaces the team's limit of the same name there;
    with `null`, the team has no such limit in that region."""
    tokens_per_month: int | None = Field(default=None, ge=1, le=_LARGEST)
    """Tokens per calendar month (UTC) in all regions, prompts and answers combined."""


class TokenPrice(StackModel):
    """Price of a model's tokens."""

    input_usd_per_million: float = Field(ge=0, le=1e6)
    """US dollars per million prompt tokens."""
    output_usd_per_million: float = Field(ge=0, le=1e6)
    """US dollars per million answer tokens."""


class TokenIssuer(StackModel):
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


class ClientCertificates(StackModel):
    """Client certificates, which the load balancer of `gateway.front: global` validates."""

    authorities: tuple[str, ...] = Field(min_length=1, max_length=100)
    """Certificates of the trusted authorities, each in PEM format. Requests without a valid
    certificate can authenticate otherwise."""
    teams: dict[str, Name] = Field(min_length=1)
    """Team for each identity of a certificate: a SPIFFE ID, `dns:NAME` or `sha256:` with the
    hexadecimal fingerprint. Certificates without a team are rejected."""


class People(StackModel):
    """People who sign in with Google, through Identity-Aware Proxy of `gateway.front: global`."""

    hostname: Hostname
    """Hostname for them, which `gateway.certificate` covers. Programs with keys use
    `gateway.hostname`."""
    members: tuple[str, ...] = Field(min_length=1, max_length=100)
    """Who may sign in: `user:`, `group:` or `serviceAccount:` with an address, or
    `domain:NAME`."""
    team: Name
    """Their team."""
    backend_service: str | None = Field(default=None, pattern=r"^[0-9]{1,20}$")
    """ID of the front's backend service for people, which Google chooses when the first `up`
    creates it. Quote the ID; it exceeds the precision of a YAML number.
    Until it is set, everyone who signs in gets 401."""


class CounterStore(StackModel):
    """Memorystore for Valkey in each region, where `counters` is `valkey`."""

    make_connection_policy: bool = True
    """Whether to create the network's service connection policy of class `gcp-memorystore`. Set to
    false if the network already has one in the region, since only one is allowed."""
    node_type: StoreNodes | None = None
    """Node type. By default, standard-small where protection is on; elsewhere shared-core-nano,
    which has no SLA."""
    replicas: int = Field(default=1, ge=0, le=5)
    """Replicas that take over if the zone of the primary fails."""


class AnswerStoreSettings(StackModel):
    """Memorystore for Valkey in each region, which stores answers in plain text."""

    node_type: StoreNodes = StoreNodes.SMALL
    """Node type, whose memory limits the cache size. The least recently used answer is evicted
    first."""
    replicas: int = Field(default=0, ge=0, le=5)
    """Replicas that take over if the zone of the primary fails. Without one, engines generate every
    answer during an outage."""


class AnswerCache(StackModel):
    """Semantic cache: a team's members get a cached answer to a question with the same meaning."""

    embeddings: ModelName
    """Model of the stack with `task: embed` that computes the embeddings of questions, in each
    region that has a model with cached answers."""
    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models and adapters whose answers are cached. By default, all that generate text."""
    store: AnswerStoreSettings = AnswerStoreSettings()
    """Store of the cached answers."""
    threshold: float = Field(default=0.95, gt=0, le=1)
    """Minimum cosine similarity of two questions' embeddings for them to share an answer. The right
    value depends on the embedding model: `bench cache` shows wrong answers by threshold."""
    ttl_seconds: int = Field(default=86400, ge=1, le=30 * 86400)
    """How long an answer is cached."""


class TimeUnit(StrEnum):
    """Units of the interval of an API product's quota."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class ApigeeProduct(StackModel):
    """An API product: developers subscribe their apps to it in Apigee, and each app gets a key."""

    requests: int = Field(ge=1, le=_LARGEST)
    """Requests of each app per interval."""
    interval: int = Field(default=1, ge=1, le=1000)
    """Length of the interval in `time_unit`."""
    needs_approval: bool = False
    """Whether keys work only once they are approved in Apigee."""
    time_unit: TimeUnit = TimeUnit.MINUTE
    """Unit of the interval."""


class Apigee(StackModel):
    """Apigee in place of the teams of this stack: it checks keys and quotas of every request."""

    environment: Name
    """Environment of the project's Apigee organization, attached to an instance in every region
    with a gateway."""
    products: dict[Name, ApigeeProduct] = Field(min_length=1)
    """API products by name. In the Apigee organization, each region has its own, named
    PREFIX-ENVIRONMENT-NAME-REGION. A request with the key of an app that is subscribed to one may
    call every model of its region."""
    proxy: Name | None = None
    """API proxy of the environment with an extension processor and policies of your own, such as
    LLMTokenQuota or SemanticCacheLookup. By default, the proxy that the operator creates."""
    timeout_ms: int = Field(default=1000, ge=10, le=10_000)
    """Milliseconds that Apigee may take for each message."""


class Clients(StackModel):
    """Who may call the models, and their usage limits."""

    apigee: Apigee | None = None
    """Apigee in place of teams. It needs the Apigee Operator for Kubernetes in every cluster."""

    teams: dict[Name, ClientTeam] = Field(default_factory=dict[str, ClientTeam])
    """Teams by name. Create their keys with `gke-inference clients keys create TEAM`."""
    anonymous: str | None = Field(default=None, min_length=10, max_length=300)
    """Reason why requests without a credential are allowed. Without a reason, they are rejected
    with 401. Their limits are those of a team named `anonymous`."""
    certificates: ClientCertificates | None = None
    """Client certificates that are accepted in addition to keys. None by default."""
    cache: AnswerCache | None = None
    """Answer cache for teams with `cached_answers`. None by default."""
    counters: Counters = Counters.VALKEY
    """Where limits are counted. `valkey` counts across all replicas of a region. `local` lets each
    replica enforce its share: it costs nothing, but can reject bursts at one replica too early."""
    default_context: int = Field(default=131_072, ge=1, le=2**30)
    """Assumed context in tokens of models that this stack does not describe: backends, and models
    of serving stacks. A request without a limit reserves what its prompt leaves of the context."""
    issuers: tuple[TokenIssuer, ...] = ()
    """Issuers whose tokens are accepted in addition to keys."""
    key_locations: tuple[str, ...] = ()
    """Regions that store the key hashes. By default, Google chooses them."""
    people: People | None = None
    """People who sign in with Google. None by default."""
    prices: dict[ModelName, TokenPrice] = Field(default_factory=dict[str, TokenPrice])
    """Prices of the tokens of models and adapters. By default, tokens are counted but not
    priced."""
    replicas: int | None = Field(default=None, ge=1, le=20)
    """Replicas of the service that checks each request. By default, 3 where protection is on and 2
    elsewhere."""
    shared_prefix_cache: bool = False
    """Whether teams share the prefix caches of engines. A shared cache has more hits, where teams
    send the same long prompts, but a team can find out by the time to the first token whether
    another one has sent a prompt. By default, requests of different teams share no prefix in vLLM
    and SGLang; the other engines cannot separate teams."""
    store: CounterStore = CounterStore()
    """Store of the usage counters."""
