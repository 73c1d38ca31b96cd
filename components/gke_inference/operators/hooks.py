"""Webhooks of operators as controller-runtime serves them."""

from dataclasses import dataclass

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.versions import api


@dataclass(frozen=True)
class Target:
    """The Service in front of an operator."""

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
    """Returns one webhook of one kind.

    Args:
        target: What answers.
        verb: `mutate` or `validate`.
        lock_name: Of the kind, under `apis` in versions.yaml.
        resources: Of the kind, with its parts, such as `jobs` and `jobs/status`.
        operations: That it sees.
        selector: `namespaceSelector` or `objectSelector` of what waits for the operator; None:
            all objects do.
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
