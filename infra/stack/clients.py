"""Clients: who may call the models, with which limits, and how they authenticate."""

from enum import StrEnum

from pydantic import Field

from gke_inference.clients.settings import (
    APIGEE_TIMEOUT_MS,
    THRESHOLD,
    TTL_SECONDS,
    ApigeeApp,
    ApigeeProduct,
    ApigeeTimeoutMs,
    GateReplicas,
    StoreNodes,
    StoreReplicas,
    TeamLimits,
    TeamSettings,
    Threshold,
    TokenIssuer,
    TokenPrice,
    TtlSeconds,
)
from gke_inference.intent.settings import StreamIdleSeconds
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    DEFAULT_CONTEXT,
    Context,
    Hostname,
    ModelName,
    Name,
    RegionName,
)


class Counters(StrEnum):
    """Where limits are counted."""

    VALKEY = "valkey"
    LOCAL = "local"


class ClientTeam(TeamSettings):
    """One team of clients. An omitted limit means unlimited.

    Limits per minute apply in each region, those of a month to all regions together.
    """

    monthly_shares: dict[RegionName, float] = Field(default_factory=dict[str, float])
    """Share of each region in the limits of a month, more than 0. All regions together have 1. By
    default, all have the same. A region does not use what is left in another one."""
    regional: dict[RegionName, TeamLimits] = Field(default_factory=dict[str, TeamLimits])
    """Limits per minute in single regions. Each replaces the team's limit of the same name there;
    with `null`, the team has no such limit in that region."""


class ClientCertificates(Settings):
    """Client certificates, which the load balancer of `gateway.front: global` validates."""

    authorities: tuple[str, ...] = Field(min_length=1, max_length=100)
    """Certificates of the trusted authorities, each in PEM format. Requests without a valid
    certificate can authenticate otherwise."""
    teams: dict[str, Name] = Field(min_length=1)
    """Team for each identity of a certificate: a SPIFFE ID, `dns:NAME` or `sha256:` with the
    hexadecimal fingerprint. Certificates without a team are rejected."""


class People(Settings):
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


class CounterStore(Settings):
    """Memorystore for Valkey in each region, where `counters` is `valkey`."""

    make_connection_policy: bool = True
    """Whether to create the network's service connection policy of class `gcp-memorystore`. Set to
    false if the network already has one in the region, since only one is allowed."""
    node_type: StoreNodes | None = None
    """Node type. By default, standard-small where protection is on; elsewhere shared-core-nano,
    which has no SLA."""
    replicas: StoreReplicas = 1
    """Replicas that take over if the zone of the primary fails."""


class AnswerStoreSettings(Settings):
    """Memorystore for Valkey in each region, which stores answers in plain text."""

    node_type: StoreNodes = StoreNodes.SMALL
    """Node type, whose memory limits the cache size. The least recently used answer is evicted
    first."""
    replicas: StoreReplicas = 0
    """Replicas that take over if the zone of the primary fails. Without one, engines generate every
    answer during an outage."""


class AnswerCache(Settings):
    """Semantic cache: a team's members get a cached answer to a question with the same meaning."""

    embeddings: ModelName
    """Model of the stack with `task: embed` that computes the embeddings of questions, in each
    region that has a model with cached answers."""
    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models and adapters whose answers are cached. By default, all that generate text."""
    store: AnswerStoreSettings = AnswerStoreSettings()
    """Store of the cached answers."""
    threshold: Threshold = THRESHOLD
    """Minimum cosine similarity of two questions' embeddings for them to share an answer. The right
    value depends on the embedding model: `bench cache` shows wrong answers by threshold."""
    ttl_seconds: TtlSeconds = TTL_SECONDS
    """How long an answer is cached."""


class Apigee(Settings):
    """Apigee in place of the teams of this stack: it checks keys and quotas of every request."""

    apps: dict[Name, ApigeeApp] = Field(default_factory=dict[str, ApigeeApp])
    """Apps by name, each with a key. In the Apigee organization, they are named
    PREFIX-ENVIRONMENT-NAME. Without any, create developers and apps in Apigee."""
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
    timeout_ms: ApigeeTimeoutMs = APIGEE_TIMEOUT_MS
    """Milliseconds that Apigee may take for each message."""


class Clients(Settings):
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
    default_context: Context = DEFAULT_CONTEXT
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
    replicas: GateReplicas | None = None
    """Replicas of the service that checks each request. By default, 3 where protection is on and 2
    elsewhere."""
    shared_prefix_cache: bool = False
    """Whether teams share the prefix caches of engines. A shared cache has more hits, where teams
    send the same long prompts, but a team can find out by the time to the first token whether
    another one has sent a prompt. By default, requests of different teams share no prefix in vLLM
    and SGLang; the other engines cannot separate teams."""
    store: CounterStore = CounterStore()
    """Store of the usage counters."""
    stream_idle_seconds: StreamIdleSeconds | None = None
    """Seconds without a byte from an engine or a backend after which a stream that has begun is
    ended with an error. By default 240, which is less than the 5 minutes after which Envoy, and so
    perhaps the load balancer, cuts an idle stream."""

    @property
    def acting_teams(self) -> list[str]:
        """Teams whose keys may act for other teams."""
        return [name for name, team in self.teams.items() if team.acts_for_teams]
