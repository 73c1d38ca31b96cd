"""Settings of backends, which stacks and the relays share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.intent.settings import MAX_REQUEST_SECONDS, RequestSeconds, StreamIdleSeconds
from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import (
    DEFAULT_CONTEXT,
    CloudRunService,
    Context,
    EmailAddress,
    LocationName,
    ProjectId,
    WebUrl,
)

AfterQueue = Annotated[int, Field(ge=1, le=10_000)]
"""Requests that wait at every engine before a fallback accepts any."""
BackendModel = Annotated[str, Field(min_length=1, max_length=200)]
"""Name of a model at the service that runs it."""
RelayReplicas = Annotated[int, Field(ge=1, le=20)]
"""Replicas of a relay."""
REPLICAS: Final = 2
TIMEOUT_SECONDS: Final = 120
Weight = Annotated[int, Field(ge=1, le=1000)]
"""Share of the requests, relative to the other targets."""


class WaitLimits(Settings):
    """Limits of the requests that wait while no replica of a model is ready."""

    requests: int = Field(default=64, ge=1, le=200)
    """Maximum number of requests that wait in each of the two relays of a model."""
    seconds: int = Field(default=360, ge=1, le=MAX_REQUEST_SECONDS)
    """Maximum time in seconds for which a request waits."""


class WaitSettings(WaitLimits):
    """How requests wait while no replica of a model is ready."""

    expected_seconds: int = Field(ge=0, le=86_400)
    """Estimated time from the first request to a replica, in seconds: what `Retry-After` is
    based on."""
    timeout_seconds: RequestSeconds
    """Maximum duration of a request with its wait, in seconds."""


class BackendKind(Word):
    """Service that runs a backend."""

    ANTHROPIC = "anthropic"
    CLOUD_RUN = "cloud-run"
    GEMINI = "gemini"
    HTTP = "http"
    OPENAI = "openai"
    VERTEX = "vertex"


class KindFields(Settings):
    """Fields of a target that only some kinds have."""

    location: LocationName | None = None
    """Vertex AI location, such as us-central1 or global."""
    project: ProjectId | None = None
    """Vertex AI project."""
    secret: str | None = None
    """Secret with the API key, `projects/P/secrets/S`. `anthropic`, `gemini` and `openai` need one,
    and `http` if the server does."""
    service: CloudRunService | None = None
    """Cloud Run service, `projects/P/locations/L/services/S`."""
    url: WebUrl | None = None
    """URL of the Cloud Run service, or base URL of the API of an `http` backend, such as
    `https://llm.example.com/v1`."""


class TargetFields(KindFields):
    """One of several targets of a backend."""

    kind: BackendKind
    """Service that runs the model. `http` is any server with an OpenAI-compatible API, such as one
    in another cluster."""
    model: BackendModel
    """Name of the model at the service, such as google/gemini-2.5-flash."""
    weight: Weight = 1
    """Share of the requests, relative to the other targets."""


class TargetSettings(TargetFields):
    """One target of a backend."""

    service_account: EmailAddress | None = None
    """Address of the service account that calls Cloud Run. Required of `cloud-run`."""


class BackendSettings(Settings):
    """A model that runs outside the platform."""

    targets: tuple[TargetSettings, ...] = Field(min_length=1)
    """Its targets. If one has no capacity or cannot be reached, another is called."""
    context: Context = DEFAULT_CONTEXT
    """Assumed maximum length of a prompt with its answer, in tokens. A fallback reserves the cost
    of what a prompt leaves of it for a request without a limit."""
    idle_seconds: StreamIdleSeconds | None = None
    """Seconds without a byte after which a stream is ended. Before the first byte, the next target
    is called. Default: none."""
    timeout_seconds: RequestSeconds = TIMEOUT_SECONDS
    """Maximum duration of a request in seconds, streams included."""
