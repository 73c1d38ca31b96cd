"""Settings of delivery, which stacks and the components of sync tools share."""

from typing import Final

from gke_inference.settings import Word

DEFAULT_BRANCH: Final = "main"


class DeliveryTool(Word):
    """Tool that reads the object tree and applies it."""

    CONFIG_SYNC = "config-sync"
    ARGO_CD = "argo-cd"


class DeliverySourceKind(Word):
    """Type of the source of the object tree."""

    GIT = "git"
    OCI = "oci"
