"""Settings of clients, which stacks and the gate of a Gateway share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import OneOf, Settings, Word
from gke_inference.settings.fields import (
    EmailAddress,
    HttpsUrl,
    ModelName,
    MonthlyUsd,
    Name,
    UsdPerMillion,
)

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


class WhenSpent(Settings):
    """A cheaper model that answers once a team's `monthly_usd` is spent.

    It answers requests to the team's other models that generate text. Set either `monthly_usd` or
    `unlimited`.
    """

    model: ModelName
    """Model or adapter of the stack with a lower price, which the team may use. It counts at its
    own price."""
    monthly_usd: MonthlyUsd | None = None
    """Maximum cost in a calendar month (UTC) beyond the team's `monthly_usd`. Then requests are
    refused."""
    unlimited: bool = False
    """Whether it answers without a limit until the month ends."""


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
    when_spent: WhenSpent | None = None
    """Cheaper model that answers once `monthly_usd` is spent. By default, requests are refused."""

    def may_ask(self, model: str) -> bool:
        """Return whether it may request a model or an adapter of this name."""
        return self.models is None or model in self.models


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


ProductTask = Annotated[str, OneOf(("embed", "generate", "image", "video"))]
"""Task of models whose paths an API product can cover."""


class ApigeeProduct(Settings):
    """An API product: developers subscribe their apps to it in Apigee, and each app gets a key."""

    requests: Limit
    """Requests of each app per interval."""
    interval: int = Field(default=1, ge=1, le=1000)
    """Length of the interval in `time_unit`."""
    needs_approval: bool = False
    """Whether keys work only once they are approved in Apigee."""
    tasks: Annotated[tuple[ProductTask, ...], Field(min_length=1)] | None = None
    """Tasks of the models whose paths it covers, such as `embed`. All by default."""
    time_unit: TimeUnit = TimeUnit.MINUTE
    """Unit of the interval."""


class ApigeeApp(Settings):
    """An app of a developer, which gets a key."""

    developer: EmailAddress
    """Email address of its developer, whom this stack registers in the Apigee organization."""
    products: tuple[Name, ...] = Field(min_length=1)
    """API products that its key is for. The first one that covers a request counts it."""


ApigeeTimeoutMs = Annotated[int, Field(ge=10, le=10_000)]
"""Milliseconds that Apigee may take for each message."""
APIGEE_TIMEOUT_MS: Final = 1000
