"""Access to a cluster through GKE's DNS endpoint."""

import json
from typing import Any


def kubeconfig(context: str, endpoint: str) -> str:
    """Return a kubeconfig (JSON, which is YAML) that uses the caller's Google identity.

    The DNS endpoint has a publicly trusted certificate, and IAM controls access, so the file
    contains no CA data and no secret
    (cloud.google.com/kubernetes-engine/docs/concepts/network-isolation).

    Args:
        context: Name of the cluster, user and context.
        endpoint: DNS name of the control plane, without a scheme; a port is kept.
    """
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": f"https://{endpoint}"}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
        "preferences": {},
        "users": [{"name": context, "user": {"exec": _EXEC}}],
    }
    return json.dumps(document, indent=2, sort_keys=True)


_EXEC = {
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "command": "gke-gcloud-auth-plugin",
    "installHint": "Run: gcloud components install gke-gcloud-auth-plugin",
    "interactiveMode": "Never",
    "provideClusterInfo": True,
}
