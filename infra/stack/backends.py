"""Backends: models that run outside the platform, served by the same endpoint."""

from pydantic import Field

from gke_inference.backends.settings import (
    TIMEOUT_SECONDS,
    AfterQueue,
    BackendKind,
    BackendModel,
    KindFields,
    TargetFields,
)
from gke_inference.intent.cloud_run import CloudRunSettings
from gke_inference.intent.settings import RequestSeconds, StreamIdleSeconds
from gke_inference.settings import Settings
from gke_inference.settings.fields import MonthlyUsd, Name, ProjectId, RegionName


class CloudRunDeployment(CloudRunSettings):
    """A Cloud Run service with a GPU, which the stack creates for a model that fits one GPU."""

    regions: tuple[RegionName, ...] | None = Field(default=None, min_length=1)
    """Regions with a service. By default, every region with a gateway. Relays of other regions call
    the service of the first."""


class _OfKind(KindFields):
    """Fields of a target that only some kinds have, with the defaults of a stack."""

    project: ProjectId | None = None
    """Vertex AI project. By default, the stack's project."""
    deploy: CloudRunDeployment | None = None
    """Cloud Run service that the stack creates, instead of an existing `service` at `url`."""
    secret: Name | None = None
    """Name for the secret with the API key. The stack creates PREFIX-ENVIRONMENT-NAME without a
    version, and you add the key."""


class BackendTarget(_OfKind, TargetFields):
    """One of several targets of a backend."""


class Backend(_OfKind):
    """A model that runs outside the platform, with one target or several `targets`."""

    kind: BackendKind | None = None
    """Service that runs the model. `http` is any server with an OpenAI-compatible API, such as one
    in another cluster."""
    model: BackendModel | None = None
    """Name of the model at the service, such as google/gemini-2.5-flash."""
    targets: tuple[BackendTarget, ...] = ()
    """Several weighted targets. If one has no capacity, another is called."""
    idle_seconds: StreamIdleSeconds | None = None
    """Seconds without a byte from a target after which its stream is ended. Before the first byte,
    the next target is called. By default, `clients.stream_idle_seconds` alone ends it."""
    timeout_seconds: RequestSeconds = TIMEOUT_SECONDS
    """Maximum duration of a request, streams included."""

    @property
    def places(self) -> tuple[BackendTarget, ...]:
        """Return the targets, including the only one."""
        if self.kind is None or self.model is None:
            return self.targets
        only = {name: getattr(self, name) for name in _OfKind.model_fields}
        return (BackendTarget(kind=self.kind, model=self.model, **only),)


class Fallback(Settings):
    """Where a model's requests go when its engines have no capacity."""

    backend: Name
    """Name of one of `backends`."""
    monthly_usd: MonthlyUsd
    """Monthly spending limit (UTC) per region, at `clients.prices` of the backend. When it is
    reached, requests are rejected as if no fallback were configured."""
    after_queue: AfterQueue = 8
    """Queue length at every engine from which the fallback receives requests."""
