"""Waits until a new cluster serves GKE's own kinds, which it does not have at first.

For why this is a Deployment, see docs/adr/0051-kinds-of-a-new-cluster.md.
"""

import json
from pathlib import Path
from typing import TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    deployment,
    hardened_pod,
    labels_for,
    manifest,
    register,
)
from gke_inference.catalogue.versions import api, image
from gke_inference.namespace.serving_namespace import namespace_object

NAME = "cluster-kinds"
"""Name of its namespace and objects."""
PORT = 8011
_USER = 65532


class ClusterKindsArgs(TypedDict):
    """Inputs of `ClusterKinds`."""

    kinds: list[str]
    """Kinds to wait for, as under `apis` in versions.yaml: `compute_class`, `inference_pool`, …"""


class ClusterKinds(pulumi.ComponentResource):
    """A small Deployment that becomes ready once a cluster serves some kinds.

    GKE installs its own kinds some time after a new cluster answers, and the Kubernetes provider
    waits half a minute for a missing kind. Make what has these kinds depend on this component.
    """

    namespace: str
    """Namespace of the Deployment."""

    def __init__(
        self, name: str, args: ClusterKindsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ClusterKinds", name, {}, opts)
        args = checked(ClusterKindsArgs, args)
        made = register(f"{name}-namespace", namespace_object(NAME, "restricted"), under(self))
        account = register(f"{name}-account", account_object(), under(self, depends_on=[made]))
        register(name, kinds_object(args["kinds"]), under(self, depends_on=[account]))
        self.namespace = NAME
        self.register_outputs({"namespace": self.namespace})


def account_object() -> Manifest:
    """Return the Deployment's account, which needs no role: every account sees the kinds."""
    return manifest("service_account", NAME, NAME, labels=labels_for(NAME, NAME))


def kinds_object(names: list[str]) -> Manifest:
    """Return the Deployment that waits for some kinds, by their names under `apis`."""
    wanted: dict[str, list[str]] = {}
    for name in sorted(names):
        kind = api(name)
        wanted.setdefault(kind.api_version, []).append(kind.kind)
    return deployment(NAME, NAME, NAME, _pod(wanted), 1)


def _pod(wanted: dict[str, list[str]]) -> Manifest:
    return {
        "automountServiceAccountToken": True,
        "containers": [
            {
                "command": [
                    "python3",
                    "-c",
                    Path(__file__).with_name("kinds_program.py").read_text(),
                ],
                "env": [
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "KINDS", "value": json.dumps(wanted, sort_keys=True)},
                    {"name": "PORT", "value": str(PORT)},
                ],
                "image": image("weights_gate").reference,
                "name": NAME,
                "ports": [{"containerPort": PORT, "name": "ready"}],
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": PORT},
                    "periodSeconds": 2,
                },
                "resources": {
                    "limits": {"memory": "128Mi"},
                    "requests": {"cpu": "20m", "memory": "64Mi"},
                },
                "securityContext": HARDENED_CONTAINER,
            }
        ],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": NAME,
    }
