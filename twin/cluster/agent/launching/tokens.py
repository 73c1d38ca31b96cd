"""Tokens of service accounts, and the address of the API server that accepts them."""

from urllib.parse import urlsplit

from twin.wire.kube import JsonObject, Kube

_LIFETIME_SECONDS = 30 * 24 * 3600


def api_server(kube: Kube) -> dict[str, str]:
    """Return the variables with which a program in a pod finds its API server."""
    address = urlsplit(kube.server)
    return {
        "KUBERNETES_SERVICE_HOST": address.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(address.port or 443),
    }


def token_of(kube: Kube, pod: JsonObject) -> str:
    """Return a token of a pod's service account, bound to the pod.

    It is valid for longer than one hour, because it is not renewed here.

    Raises:
        KubeError: The service account does not exist.
    """
    metadata = pod["metadata"]
    account = pod["spec"].get("serviceAccountName", "default")
    answer = kube.post(
        f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": _LIFETIME_SECONDS,
                "boundObjectRef": {
                    "kind": "Pod",
                    "apiVersion": "v1",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        },
    )
    return str(answer["status"]["token"])
