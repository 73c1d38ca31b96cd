"""Clients of the endpoint: teams with limits, and how they prove who they are."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import HttpsUrl, ModelName, Name, StackModel

_LARGEST = 10**12


class Priority(StrEnum):
    """What a team's requests are to a pool that is full."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class Counters(StrEnum):
    """Where limits are counted."""

    VALKEY = "valkey"
    LOCAL = "local"


class StoreNodes(StrEnum):
    """Types of the nodes of a store of counters."""

    NANO = "shared-core-nano"
    SMALL = "standard-small"
    MEDIUM = "highmem-medium"
    LARGE = "highmem-xlarge"


class ClientTeam(StackModel):
    """One team of clients. A limit that is left out does not exist; each counts by region."""

    cached_answers: bool = False
    """Whether its members get answers again that one of them got before, by `clients.cache`."""
    guardrails: tuple[Name, ...] = ()
    """Guardrails of kind nemo that check its requests to every model, beside those of the model."""
    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models and adapters that it may ask for; all by default."""
    monthly_usd: float | None = Field(default=None, gt=0, le=1e9)
    """What its tokens may cost in a calendar month (UTC) at `clients.prices`."""
    priority: Priority = Priority.INTERACTIVE
    """Of its requests at every model; `batch` is refused first when a model is full."""
    requests_per_minute: int | None = Field(default=None, ge=1, le=_LARGEST)
    """Requests in a minute."""
    tokens_per_minute: int | None = Field(default=None, ge=1, le=_LARGEST)
    """Tokens in a minute, prompts and answers together."""
    tokens_per_month: int | None = Field(default=None, ge=1, le=_LARGEST)
    """Tokens in a calendar month (UTC), prompts and answers together."""


class TokenPrice(StackModel):
    """What the tokens of a model are charged at."""

    input_usd_per_million: float = Field(ge=0, le=1e6)
    """Dollars for a million tokens of prompts."""
    output_usd_per_million: float = Field(ge=0, le=1e6)
    """Dollars for a million tokens of answers."""


class TokenIssuer(StackModel):
    """An issuer of JSON web tokens, such as the identity provider of a company."""

    audiences: tuple[str, ...] = Field(min_length=1)
    """Values of `aud`, one of which a token must have."""
    issuer: HttpsUrl
    """Value of `iss`."""
    jwks_uri: HttpsUrl
    """Address of its public keys."""
    claim: str = Field(default="team", min_length=1, max_length=200)
    """Claim that names the team."""
    header: str = Field(default="authorization", pattern=r"^[a-z][-a-z0-9]{0,63}$")
    """Header that has the token; `x-goog-iap-jwt-assertion` for Identity-Aware Proxy."""
    teams: dict[str, Name] = Field(default_factory=dict[str, str])
    """Team of each value of the claim; by default the value is its name."""


class CounterStore(StackModel):
    """Memorystore for Valkey of each region, where `counters` is valkey."""

    make_connection_policy: bool = True
    """Whether the network's service connection policy of class `gcp-memorystore` is made; false
    where the network has one in the region, as there can be one only."""
    node_type: StoreNodes | None = None
    """Type of its nodes. By default standard-small where protection is on, and shared-core-nano,
    which has no service level agreement, elsewhere."""
    replicas: int = Field(default=1, ge=0, le=5)
    """Copies that take over when its zone is lost."""


class AnswerStoreSettings(StackModel):
    """Memorystore for Valkey of each region, which keeps answers in plain text."""

    node_type: StoreNodes = StoreNodes.SMALL
    """Type of its nodes, whose memory bounds how much is kept: the answer that nobody asked for
    longest goes first."""
    replicas: int = Field(default=0, ge=0, le=5)
    """Copies that take over when its zone is lost; without one, engines make every answer."""


class AnswerCache(StackModel):
    """Answers that the members of a team get again when they ask the same in other words."""

    embeddings: ModelName
    """Model of the stack that makes the embeddings of questions, with `task: embed`, in each region
    that has a model whose answers are kept."""
    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models and adapters whose answers are kept; all that generate text by default."""
    store: AnswerStoreSettings = AnswerStoreSettings()
    """Where answers are kept."""
    threshold: float = Field(default=0.95, gt=0, le=1)
    """Least similarity (cosine of the embeddings) of two questions that have one answer. What is
    right depends on the model of embeddings: `bench cache` shows wrong answers by threshold."""
    ttl_seconds: int = Field(default=86400, ge=1, le=30 * 86400)
    """How long an answer is kept."""


class Clients(StackModel):
    """Who may call the models, and how much they may use."""

    teams: dict[Name, ClientTeam] = Field(default_factory=dict[str, ClientTeam])
    """Teams by name. `gke-inference clients keys create TEAM` makes their keys."""
    anonymous: str | None = Field(default=None, min_length=10, max_length=300)
    """Why requests without a credential pass; without a reason they get 401. A team `anonymous`
    has their limits."""
    cache: AnswerCache | None = None
    """Cache of answers for the teams that say `cached_answers`; none by default."""
    counters: Counters = Counters.VALKEY
    """Where limits are counted: for all replicas of a region together, or each for its own share,
    which costs nothing and lets bursts at one replica be refused too early."""
    issuers: tuple[TokenIssuer, ...] = ()
    """Issuers of tokens that are taken beside keys."""
    key_locations: tuple[str, ...] = ()
    """Regions that keep the hashes of the keys; wherever Google does by default."""
    prices: dict[ModelName, TokenPrice] = Field(default_factory=dict[str, TokenPrice])
    """What the tokens of models and adapters are charged at; by default only tokens are counted."""
    replicas: int | None = Field(default=None, ge=1, le=20)
    """Replicas of the program that checks each request. By default 3 where protection is on, and 2
    elsewhere."""
    store: CounterStore = CounterStore()
    """The store of the counters."""
