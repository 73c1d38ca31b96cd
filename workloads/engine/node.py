"""The Node object of this pod's node, from the API server of its cluster.

Pods use GKE's metadata server, which has the node's name and zone, but neither
`instance/preempted` nor `kube-labels` (github.com/banzaicloud/preemption-exporter/issues/3,
GoogleCloudPlatform/k8s-node-termination-handler pull request 23). `ServingNamespace` allows the pod
to get its own Node, and a token is mounted in `ACCESS`.
"""

import http.client
import json
import os
import ssl
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACCESS = "/var/run/secrets/gke-inference"
"""Folder with `token` and `ca.crt`."""

NAME_VARIABLE = "NODE_NAME"

SPOT_POD_SECONDS = 15.0
"""Time that pods on a spot node get from the 30 s notice; the other half is for system pods
(docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms, graceful termination)."""

HOOK_SECONDS = 5
"""Part of that time that the pod's preStop hook uses: a third, for load balancers to react."""

_SPOT_LABELS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
_TERMINATION = "cloud.google.com/impending-node-termination"
_SECONDS = 2.0


@dataclass(frozen=True)
class Node:
    """A node's labels, and the keys of its taints."""

    labels: "dict[str, str]" = field(default_factory=dict[str, str])
    taints: "frozenset[str]" = frozenset()

    @property
    def is_preempted(self) -> bool:
        """Whether it is a spot node that received its preemption notice.

        Other nodes get the taint up to an hour before maintenance, and pods keep their full grace
        period.
        """
        is_spot = any(self.labels.get(label) == "true" for label in _SPOT_LABELS)
        return is_spot and _TERMINATION in self.taints


def read(root: Path) -> "Node | None":
    """Return the node of this pod, or None if it is unknown.

    Args:
        root: Folder to use as `/`.
    """
    host, name = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get(NAME_VARIABLE)
    if not host or not name:
        return None
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    access = root / ACCESS.lstrip("/")
    try:
        token = (access / "token").read_text(encoding="utf-8").strip()
        trust = ssl.create_default_context(cafile=str(access / "ca.crt"))
        request = urllib.request.Request(
            f"https://{address}:{port}/api/v1/nodes/{name}",
            headers={"Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=_SECONDS, context=trust) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
    except (OSError, ValueError, http.client.HTTPException):
        return None
    spec: dict[str, Any] = found.get("spec") or {}
    metadata: dict[str, Any] = found.get("metadata") or {}
    taints: list[dict[str, Any]] = spec.get("taints") or []
    labels: dict[str, str] = metadata.get("labels") or {}
    return Node(labels, frozenset(str(taint.get("key")) for taint in taints))
