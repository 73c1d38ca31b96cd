"""A pod's identity: a kubeconfig with its service account's token, as for in-cluster access."""

import base64
import json
from pathlib import Path

import yaml

from twin.cluster.agent.launching.tokens import token_of
from twin.host.private_files import private_folder, write_private
from twin.wire.kube import JsonObject, Kube


def write_kubeconfig(kube: Kube, admin: Path, pod: JsonObject, file: Path) -> None:
    """Write a kubeconfig with a token of the pod's service account, bound to the pod.

    The folder `serviceaccount` beside it contains the files that a pod finds in its file system. A
    picker therefore has the permissions of its Role, not the administrator's.

    Args:
        kube: API server, accessed as administrator.
        admin: Kubeconfig of the same server, for its address and CA.
        pod: Pod to write the kubeconfig for.
        file: File to write.

    Raises:
        KubeError: The service account does not exist.
    """
    account = pod["spec"].get("serviceAccountName", "default")
    namespace: str = pod["metadata"]["namespace"]
    token = token_of(kube, pod)
    config: JsonObject = yaml.safe_load(admin.read_text())
    cluster: JsonObject = dict(config["clusters"][0]["cluster"])
    authority = cluster.get("certificate-authority")
    if authority and not Path(authority).is_absolute():
        cluster["certificate-authority"] = str(admin.parent / authority)
    context = {"cluster": "in-cluster", "user": account, "namespace": namespace}
    file.parent.mkdir(parents=True, exist_ok=True)
    _write_account(file.parent / "serviceaccount", cluster, namespace, token)
    write_private(
        file,
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "in-cluster",
                "clusters": [{"name": "in-cluster", "cluster": cluster}],
                "contexts": [{"name": "in-cluster", "context": context}],
                "users": [{"name": account, "user": {"token": token}}],
            }
        ),
    )


def _write_account(folder: Path, cluster: JsonObject, namespace: str, token: str) -> None:
    private_folder(folder)
    authority = cluster.get("certificate-authority")
    found = (
        Path(authority).read_bytes()
        if authority
        else base64.b64decode(cluster["certificate-authority-data"])
    )
    for name, content in (
        ("ca.crt", found),
        ("namespace", namespace.encode()),
        ("token", token.encode()),
    ):
        write_private(folder / name, content)
