"""Backends: models that run elsewhere, under names of the same endpoint."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import (
    CloudRunService,
    LocationName,
    Name,
    ProjectId,
    StackModel,
    WebUrl,
)


class BackendKind(StrEnum):
    """Where a backend runs."""

    ANTHROPIC = "anthropic"
    CLOUD_RUN = "cloud-run"
    GEMINI = "gemini"
    HTTP = "http"
    OPENAI = "openai"
    VERTEX = "vertex"


class BackendTarget(StackModel):
    """One of several places where a backend runs."""

    kind: BackendKind
    """Where it runs; `http` is any server of OpenAI's API, such as another cluster's."""
    model: str = Field(min_length=1, max_length=200)
    """Name of the model there, such as google/gemini-2.5-flash."""
    location: LocationName | None = None
    """Location of Vertex AI, such as us-central1 or global."""
    project: ProjectId | None = None
    """Project of Vertex AI; the stack's by default."""
    secret: Name | None = None
    """Secret for the API key, by a name of yours: the stack makes PREFIX-ENVIRONMENT-NAME without a
    version, and you add the key."""
    service: CloudRunService | None = None
    """Service of Cloud Run, which the stack lets its relay call."""
    url: WebUrl | None = None
    """Address of the service of Cloud Run, or of the API of an http backend with its path."""
    weight: int = Field(default=1, ge=1, le=1000)
    """Share of the requests."""


class Backend(StackModel):
    """A model that runs elsewhere: at one place, or at `targets`."""

    kind: BackendKind | None = None
    """Where it runs; `http` is any server of OpenAI's API, such as another cluster's."""
    location: LocationName | None = None
    """Location of Vertex AI, such as us-central1 or global."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Name of the model there, such as google/gemini-2.5-flash."""
    project: ProjectId | None = None
    """Project of Vertex AI; the stack's by default."""
    secret: Name | None = None
    """Secret for the API key, by a name of yours: the stack makes PREFIX-ENVIRONMENT-NAME without a
    version, and you add the key."""
    service: CloudRunService | None = None
    """Service of Cloud Run, which the stack lets its relay call."""
    targets: tuple[BackendTarget, ...] = ()
    """Several places, with weights; another is called where one has no room."""
    timeout_seconds: int = Field(default=120, ge=1, le=3600)
    """Longest answer that is waited for."""
    url: WebUrl | None = None
    """Address of the service of Cloud Run, or of the API of an http backend with its path."""

    @property
    def places(self) -> tuple[BackendTarget, ...]:
        """Return the places where it runs, also where there is one."""
        if self.kind is None or self.model is None:
            return self.targets
        one = BackendTarget(
            kind=self.kind,
            location=self.location,
            model=self.model,
            project=self.project,
            secret=self.secret,
            service=self.service,
            url=self.url,
        )
        return (one,)


class Fallback(StackModel):
    """Where requests of a model go that its engines have no room for."""

    backend: Name
    """Name of one of `backends`."""
    monthly_usd: float = Field(gt=0, le=1e9)
    """What it may spend in a calendar month (UTC) in each region, at `clients.prices` of the
    backend; then the model refuses requests as it does without it."""
    after_queue: int = Field(default=8, ge=1, le=10_000)
    """Requests that wait at every engine before it takes any."""
