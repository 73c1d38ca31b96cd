"""Errors of this provider, and their messages.

ProviderError
  ├─ InvalidInput    inputs that no cluster would take; carries the property
  └─ NotReady        the object exists but did not become ready; carries it
"""

from typing import Any

from twin.providers.kubernetes.manifests.fields import entries, section
from twin.wire.kube import KubeError


class ProviderError(Exception):
    """A failure, reported to the user in one message."""


class InvalidInput(ProviderError):
    """An input is rejected before any request to a cluster."""

    def __init__(self, property_path: str, reason: str) -> None:
        super().__init__(f"{property_path}: {reason}")
        self.property_path = property_path
        self.reason = reason


class NotReady(ProviderError):
    """An object was written but did not become ready in time."""

    def __init__(self, message: str, live: dict[str, Any]) -> None:
        super().__init__(message)
        self.live = live


def describe(obj: dict[str, Any]) -> str:
    """Return a human-readable name of an object, such as `Deployment serving/vllm`."""
    metadata = section(obj, "metadata")
    namespace = metadata.get("namespace")
    name = metadata.get("name", "?")
    return f"{obj.get('kind', 'object')} {f'{namespace}/' if namespace else ''}{name}"


_CONFLICTS = (
    "https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/"
    "managing-resources-with-server-side-apply/#handle-field-conflicts-on-existing-resources"
)


def explain(error: KubeError, obj: dict[str, Any], manager: str = "") -> ProviderError:
    """Return an API server error as one message that names the object.

    A conflict has the wording of the official provider (`handleSSAErr`).

    Args:
        error: error of the API server.
        obj: object of the request.
        manager: field manager of the request.
    """
    what = describe(obj)
    causes: list[dict[str, Any]] = entries(error.details, "causes")
    if error.status == 409 and any(c.get("reason") == "FieldManagerConflict" for c in causes):
        return ProviderError(
            f"{what}: server-side apply field conflict detected, see {_CONFLICTS} for "
            f'troubleshooting help\nThe resource managed by field manager "{manager}" had an apply '
            f"conflict: {error.message}"
        )
    if error.status == 0:
        return ProviderError(f"{what}: the cluster cannot be reached: {error.message}")
    return ProviderError(f"{what}: {error.message}")
