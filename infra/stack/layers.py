"""Layers: what a stack makes of a platform, and the teams that share one."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import (
    BucketName,
    EmailAddress,
    Hostname,
    ModelName,
    Name,
    StackModel,
    StackReference,
)
from infra.stack.delivery import Delivery
from infra.stack.models import Model
from infra.stack.monitoring import Monitoring


class Layer(StrEnum):
    """Which part of a platform a stack makes."""

    ALL = "all"
    PLATFORM = "platform"
    SERVING = "serving"


class Chips(StackModel):
    """Chips that the pods of a team may ask for in each cluster, all models together."""

    tpu: int = Field(default=0, ge=0, le=100_000)
    """TPU chips."""
    gpu: int = Field(default=0, ge=0, le=100_000)
    """GPUs."""


class Team(StackModel):
    """One team: its namespace has its name."""

    chips: Chips
    """Quota of chips in each cluster; a kind that is left out is 0."""
    buckets: tuple[BucketName, ...] = ()
    """Buckets that its pods may read beside the platform's, for `weights: gs://BUCKET/PATH`."""
    deployers: tuple[EmailAddress, ...] = ()
    """Users and service accounts that may deploy to its namespace without rights on the project,
    such as the identity of its CI."""
    hostname: Hostname | None = None
    """Host of its models alone, which the gateway's certificate must cover; by default it shares
    the gateway's host, where the names of models are unique."""
    privileged: bool = False
    """Whether its pods may be privileged, which models in two containers take."""


class Serving(StackModel):
    """A serving stack: models and their monitoring. All else is the platform's."""

    layer: Layer
    """`serving`."""
    platform: StackReference
    """Stack of the platform."""
    team: Name
    """Team of the platform's `teams` whose models these are."""
    models: dict[ModelName, Model] = Field(min_length=1)
    """Models by the name that clients ask for."""
    delivery: Delivery = Delivery()
    """Who applies the objects of the models."""
    monitoring: Monitoring = Monitoring()
    """Metrics and alerts."""
    allow_replace: tuple[str, ...] = ()
    """What may go with all models of the stack: `repo-sync`, or the Application of Argo CD."""
