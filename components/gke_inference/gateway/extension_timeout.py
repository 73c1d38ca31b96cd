"""How long the load balancer lets a program of an extension follow a request."""

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.versions import api
from gke_inference.intent.settings import MAX_REQUEST_SECONDS


def extension_timeout(name: str, namespace: str, component: str) -> Manifest:
    """Return the GCPBackendPolicy of a program that an extension calls.

    The program's stream is open until the answer ends. The backend service of a callout is an
    ordinary one (docs.cloud.google.com/service-extensions/docs/configure-callout-backend-service),
    and its timeout is 30 seconds unless a policy sets it. Whether it also limits these streams is
    not documented. If so, every longer answer would be cut off, because the extensions fail closed.
    Requests have limits of their own, so this one is the longest that a model can have.

    Args:
        name: Name of the Service and of the policy.
        namespace: Namespace of both.
        component: Component of the program, for the labels.
    """
    return manifest(
        "gateway_backend_policy",
        name,
        namespace,
        labels=labels_for(name, component),
        spec={
            "default": {"timeoutSec": MAX_REQUEST_SECONDS},
            "targetRef": api("service").reference(name),
        },
    )
