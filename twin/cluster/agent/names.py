"""DNS names of pods with a subdomain and of the heads of Ray clusters.

`CLUSTER_DIR/names.json` maps `HOSTNAME.SUBDOMAIN.NAMESPACE`, or `SERVICE.NAMESPACE`, to the address
of the pod. Programs read the file for each lookup.
"""

import json
import threading
from pathlib import Path

from twin.cluster.base.fields import text_map
from twin.wire.kube import JsonObject


def file_in(folder: Path) -> Path:
    """Return the file of a cluster."""
    return folder / "names.json"


def name_of(pod: JsonObject) -> str | None:
    """Return the DNS name of a pod under its headless Service, or None.

    The head of a Ray cluster has the name of the Service that KubeRay creates for it. That name
    also resolves while the head is not ready (kuberay v1.5.1, controllers/ray/common/service.go).
    """
    spec = pod["spec"]
    labels = text_map(pod["metadata"], "labels")
    if labels.get("ray.io/node-type") == "head":
        return f"{labels['ray.io/cluster']}-head-svc.{pod['metadata']['namespace']}"
    if not spec.get("hostname") or not spec.get("subdomain"):
        return None
    return f"{spec['hostname']}.{spec['subdomain']}.{pod['metadata']['namespace']}"


def look_up(folder: Path, name: str) -> str | None:
    """Return the address of a name; the cluster's domain is optional."""
    try:
        known: dict[str, str] = json.loads(file_in(folder).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return known.get(name.split(".svc", 1)[0])


def addresses(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    """Return the variables whose values are names of pods, with the pods' addresses."""
    found = {key: look_up(folder, value) for key, value in variables.items() if "." in value}
    return {key: address for key, address in found.items() if address is not None}


class Names:
    """Maintains the file of one cluster."""

    def __init__(self, folder: Path) -> None:
        self._file = file_in(folder)
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def tell(self, pod: JsonObject, *, gone: bool = False) -> None:
        """Update the name and address of a pod."""
        name = name_of(pod)
        if name is None:
            return
        address = pod.get("status", {}).get("podIP")
        with self._lock:
            before = self._known.get(name)
            if gone and before == address:  # otherwise, another pod has the name now
                self._known.pop(name, None)
            elif address and not gone:
                self._known[name] = address
            if self._known.get(name) != before:
                partial = self._file.with_suffix(".tmp")
                partial.write_text(json.dumps(self._known))
                partial.replace(self._file)
