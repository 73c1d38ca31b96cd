"""Backends: models that run outside the platform, served by the same endpoint."""

from enum import StrEnum

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    CloudRunService,
    LocationName,
    Name,
    ProjectId,
    WebUrl,
)


class BackendKind(StrEnum):
    """Service that runs a backend."""

    ANTHROPIC = "anthropic"
    CLOUD_RUN = "cloud-run"
    GEMINI = "gemini"
    HTTP = "http"
    OPENAI = "openai"
    VERTEX = "vertex"


class BackendTarget(Settings):
    """One of several targets of a backend."""

    kind: BackendKind
    """Service that runs the model. `http` is any server with an OpenAI-compatible API, such as one
    in another cluster."""
    model: str = Field(min_length=1, max_length=200)
    """Name of the model at the service, such as google/gemini-2.5-flash."""
    location: LocationName | None = None
    """Vertex AI location, such as us-central1 or global."""
    project: ProjectId | None = None
    """Vertex AI project. By default, the stack's project."""
    secret: Name | None = None
    """Name for the secret with the API key. The stack creates PREFIX-ENVIRONMENT-NAME without a
    version, and you add the key."""
    service: CloudRunService | None = None
    """Cloud Run service. The stack lets its relay call the service."""
    url: WebUrl | None = None
    """URL of the Cloud Run service, or base URL of the API of an `http` backend."""
    weight: int = Field(default=1, ge=1, le=1000)
    """Share of the requests, relative to the other targets."""


class Backend(Settings):
    """A model that runs outside the platform, with one target or several `targets`."""

    kind: BackendKind | None = None
    """Service that runs the model. `http` is any server with an OpenAI-compatible API, such as one
    in another cluster."""
    location: LocationName | None = None
    """Vertex AI location, such as us-central1 or global."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Name of the model at the service, such as google/gemini-2.5-flash."""
    project: ProjectId | None = None
    """Vertex AI project. By default, the stack's project."""
    secret: Name | None = None
    """Name for the secret with the API key. The stack creates PREFIX-ENVIRONMENT-NAME without a
    version, and you add the key."""
    service: CloudRunService | None = None
    """Cloud Run service. The stack lets its relay call the service."""
    targets: tuple[BackendTarget, ...] = ()
    """Several weighted targets. If one has no capacity, another is called."""
    timeout_seconds: int = Field(default=120, ge=1, le=3600)
    """Maximum time to wait for an answer."""
    url: WebUrl | None = None
    """URL of the Cloud Run service, or base URL of the API of an `http` backend."""

    @property
    def places(self) -> tuple[BackendTarget, ...]:
        """Return the targets, including the only one."""
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


class Fallback(Settings):
    """Where a model's requests go when its engines have no capacity."""

    backend: Name
    """Name of one of `backends`."""
    monthly_usd: float = Field(gt=0, le=1e9)
    """Monthly spending limit (UTC) per region, at `clients.prices` of the backend. When it is
    reached, requests are rejected as if no fallback were configured."""
    after_queue: int = Field(default=8, ge=1, le=10_000)
    """Queue length at every engine from which the fallback receives requests."""
