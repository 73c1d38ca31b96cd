"""A pod's own identity: a kubeconfig with its service account's token, as in-cluster config is."""

import json
from pathlib import Path

import yaml

from twin.wire.kube import JsonObject, Kube

_LIFETIME_SECONDS = 30 * 24 * 3600


def write_kubeconfig(kube: Kube, admin: Path, pod: JsonObject, file: Path) -> None:
    """Write a kubeconfig that is the pod's service account, bound to the pod.

    The permissions of a picker are thereby those of its Role, not the administrator's.

    Args:
        kube: the API server, as administrator.
        admin: a kubeconfig of the same server, for address and authority.
        pod: whose identity it is.
        file: to write.

    Raises:
        KubeError: the service account is not there.
    """
    metadata = pod["metadata"]
    account = pod["spec"].get("serviceAccountName", "default")
    namespace: str = metadata["namespace"]
    answer = kube.post(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
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
    config: JsonObject = yaml.safe_load(admin.read_text())
    cluster: JsonObject = dict(config["clusters"][0]["cluster"])
    authority = cluster.get("certificate-authority")
    if authority and not Path(authority).is_absolute():
        cluster["certificate-authority"] = str(admin.parent / authority)
    context = {"cluster": "in-cluster", "user": account, "namespace": namespace}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "in-cluster",
                "clusters": [{"name": "in-cluster", "cluster": cluster}],
                "contexts": [{"name": "in-cluster", "context": context}],
                "users": [{"name": account, "user": {"token": answer["status"]["token"]}}],
            }
        )
    )
