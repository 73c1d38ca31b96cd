"""Delivery: who brings the Kubernetes objects of models into the clusters."""

from enum import StrEnum

from pydantic import ConfigDict, Field

from infra.stack.base.fields import Branch, ObjectName, StackModel


class DeliveryKind(StrEnum):
    """Who applies the objects of models."""

    PULUMI = "pulumi"
    GITOPS = "gitops"


class DeliveryTool(StrEnum):
    """What reads the tree of objects, and applies it."""

    CONFIG_SYNC = "config-sync"
    ARGO_CD = "argo-cd"


class DeliverySourceKind(StrEnum):
    """Where the tree of objects is."""

    GIT = "git"
    OCI = "oci"


class DeliverySource(StackModel):
    """The tree of objects that `render --git` or `render --oci` writes."""

    kind: DeliverySourceKind
    """`git`, or `oci` for an artifact in a registry."""
    repo: str | None = Field(default=None, min_length=1, max_length=500)
    """Repository, where `kind` is git: `https://…`, `ssh://…` or `git@HOST:PATH`. Where
    `protection` is off, `file://…` and `http://…` as well, for the twin."""
    branch: Branch | None = None
    """Branch of the repository, `main` by default."""
    image: str | None = Field(default=None, min_length=1, max_length=500)
    """Artifact `HOST/PATH:TAG`, where `kind` is oci."""
    directory: str = Field(default="", max_length=200)
    """Folder of the tree in the source, such as `clusters/prod`; each region has a folder in it. By
    default the regions' folders are at the top."""
    secret: ObjectName | None = None
    """Kubernetes Secret in the team's namespace with which Config Sync reads the repository: keys
    `username` and `token`, or `ssh`. By default the repository is public. Argo CD has its own
    list of repositories."""


class Delivery(StackModel):
    """How the Kubernetes objects of models get into the clusters."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    kind: DeliveryKind = DeliveryKind.PULUMI
    """`pulumi`: each `up` applies them. `gitops`: they are committed, and `with` applies them."""
    tool: DeliveryTool | None = Field(default=None, alias="with")
    """`config-sync`, which the platform installs, or `argo-cd`, which must be in the clusters. Only
    where `layer` is platform; `config-sync` by default."""
    source: DeliverySource | None = None
    """Where the tree is. Only where `layer` is serving."""
