"""Webhooks of operators, as served by controller-runtime."""

from dataclasses import dataclass

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.versions import api


@dataclass(frozen=True)
class Target:
    """The Service of an operator."""

    namespace: str
    service: str


def hook(
    target: Target,
    verb: str,
    lock_name: str,
    resources: list[str],
    operations: list[str],
    *,
    selector: Manifest | None = None,
) -> Manifest:
    """Return the webhook for one kind.

    Args:
        target: Service that answers.
        verb: `mutate` or `validate`.
        lock_name: Name of the kind under `apis` in versions.yaml.
        resources: Resources of the kind, such as `jobs` and `jobs/status`.
        operations: Operations that trigger the webhook.
        selector: `namespaceSelector` or `objectSelector` that limits the webhook. None: it applies
            to all objects.
    """
    kind = api(lock_name)
    version = kind.api_version.rpartition("/")[2]
    path = f"/{verb}-{kind.group.replace('.', '-')}-{version}-{kind.kind.lower()}"
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"name": target.service, "namespace": target.namespace, "path": path}
        },
        "failurePolicy": "Fail",
        "name": f"{verb[0]}{kind.kind.lower()}.kb.io",
        "rules": [
            {
                "apiGroups": [kind.group],
                "apiVersions": [version],
                "operations": operations,
                "resources": resources,
            }
        ],
        "sideEffects": "None",
        **(selector or {}),
    }
