"""Delivery: how the Kubernetes objects of models are applied to the clusters."""

from enum import StrEnum

from pydantic import ConfigDict, Field

from gke_inference.delivery.settings import DeliverySourceKind, DeliveryTool
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Branch,
    ObjectName,
)


class DeliveryKind(StrEnum):
    """How the objects of models are applied."""

    PULUMI = "pulumi"
    GITOPS = "gitops"


class DeliverySource(Settings):
    """The object tree that `render --git` or `render --oci` writes."""

    kind: DeliverySourceKind
    """`git`, or `oci` for an artifact in a registry."""
    repo: str | None = Field(default=None, min_length=1, max_length=500)
    """Repository, where `kind` is `git`: `https://…`, `ssh://…` or `git@HOST:PATH`. Where
    `protection` is off, also `file://…` and `http://…`, for the twin."""
    branch: Branch | None = None
    """Branch of the repository, `main` by default."""
    image: str | None = Field(default=None, min_length=1, max_length=500)
    """Artifact `HOST/PATH:TAG`, where `kind` is `oci`."""
    directory: str = Field(default="", max_length=200)
    """Folder of the tree in the source, such as `clusters/prod`, with one folder per region. By
    default, the root."""
    secret: ObjectName | None = None
    """Kubernetes Secret in the team's namespace that Config Sync uses to read the repository, with
    the keys `username` and `token`, or `ssh`. Not needed for a public repository. Argo CD has its
    own list of repositories."""


class Delivery(Settings):
    """How the Kubernetes objects of models are applied to the clusters."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    kind: DeliveryKind = DeliveryKind.PULUMI
    """`pulumi`: each `up` applies them. `gitops`: you commit them, and the tool in `with` applies
    them."""
    tool: DeliveryTool | None = Field(default=None, alias="with")
    """`config-sync`, which the platform installs (default), or `argo-cd`, which must already be in
    the clusters. Only where `layer` is `platform`."""
    source: DeliverySource | None = None
    """Source of the object tree. Only where `layer` is `serving`."""

    @property
    def applied_with(self) -> DeliveryTool | None:
        """Tool that applies the objects of models from a repository, or None if Pulumi does."""
        if self.kind is DeliveryKind.PULUMI:
            return None
        return self.tool or DeliveryTool.CONFIG_SYNC
