"""Layers: the part of a platform that a stack deploys, and the teams that share a platform."""

from enum import StrEnum

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    BucketName,
    EmailAddress,
    Hostname,
    ModelName,
    Name,
    StackReference,
)
from infra.stack.delivery import Delivery
from infra.stack.models import Model
from infra.stack.monitoring import Monitoring


class Layer(StrEnum):
    """Part of a platform that a stack deploys."""

    ALL = "all"
    PLATFORM = "platform"
    SERVING = "serving"


class Chips(Settings):
    """Quota of chips for the pods of a team in each cluster, across all models."""

    tpu: int = Field(default=0, ge=0, le=100_000)
    """TPU chips."""
    gpu: int = Field(default=0, ge=0, le=100_000)
    """GPUs."""


class Team(Settings):
    """One team, with a namespace of the same name."""

    chips: Chips
    """Chip quota in each cluster. An omitted kind is 0."""
    buckets: tuple[BucketName, ...] = ()
    """Buckets that its pods may read in addition to the platform's, for `weights:
    gs://BUCKET/PATH`."""
    deployers: tuple[EmailAddress, ...] = ()
    """Users and service accounts that may deploy to its namespace without a role on the project,
    such as its CI identity."""
    hostname: Hostname | None = None
    """Hostname for its models only, which the gateway's certificate must cover. By default, it
    shares the gateway's hostname, where model names must be unique."""
    privileged: bool = False
    """Whether its pods may be privileged, which dual-container models require."""


class Serving(Settings):
    """A serving stack: models and their monitoring, on a platform that another stack deploys."""

    layer: Layer
    """`serving`."""
    platform: StackReference
    """Stack of the platform."""
    team: Name
    """Team that owns these models, one of the platform's `teams`."""
    models: dict[ModelName, Model] = Field(min_length=1)
    """Models, by the name that clients request."""
    delivery: Delivery = Delivery()
    """How the Kubernetes objects of the models are applied."""
    monitoring: Monitoring = Monitoring()
    """Metrics, dashboards and alerts."""
    allow_replace: tuple[str, ...] = ()
    """Names of stateful resources that this deployment may delete together with all models of the
    stack: `repo-sync`, or the Argo CD Application."""


def platform_name(reference: str) -> str:
    """Return the stack name in a reference, without organization and project."""
    return reference.rpartition("/")[2]
