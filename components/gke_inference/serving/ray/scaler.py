"""Scales models on Ray clusters, which nothing else does."""

from pathlib import Path
from typing import Final, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    deployment,
    hardened_pod,
    labels_for,
    manifest,
    register,
    role_binding,
    service_account,
)
from gke_inference.catalogue.versions import api, image
from gke_inference.serving.launcher import kube
from gke_inference.serving.launcher.spec import NEEDS, STATE

from .cluster_sets import PLURAL, cluster_set_definition

NAME: Final = "ray-scaler"
"""Name of its objects and its component."""

_USER: Final = 65532
_CLIENT_IMPORT: Final = "from gke_inference.serving.launcher.kube import Kube, KubeError\n"


class RayScalerArgs(TypedDict):
    """Inputs of `RayScaler`."""

    namespace: str
    """Namespace of the Ray clusters."""


class RayScaler(pulumi.ComponentResource):
    """The kind RayClusterSet and a small Deployment that scales the sets of one namespace.

    A RayCluster has no scale, so a `ModelServer` with `spanning: kuberay` creates a set of its
    clusters, which has one. The Deployment resumes as many clusters as the set's scale requests and
    suspends the others. While it does not run, the number of clusters stays as it is.
    """

    namespace: str
    """Namespace of the Deployment."""

    def __init__(
        self, name: str, args: RayScalerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:RayScaler", name, {}, opts)
        args = checked(RayScalerArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        before: list[pulumi.Resource] = []
        for role, obj in scaler_objects(namespace).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            before.append(register(logical, obj, under(self, depends_on=list(before))))
        self.namespace = namespace
        self.register_outputs({"namespace": self.namespace})


def scaler_objects(namespace: str) -> dict[str, Manifest]:
    """Return its objects by role, in creation order."""
    labels = labels_for(NAME, NAME)
    return {
        "definition": cluster_set_definition(NAME),
        "account": manifest("service_account", NAME, namespace, labels=labels),
        "role": manifest("role", NAME, namespace, labels=labels, rules=_rules()),
        "binding": role_binding(
            NAME, NAME, [service_account(NAME, namespace)], namespace, labels=labels
        ),
        "deployment": deployment(NAME, namespace, NAME, _pod(), 1),
    }


def _rules() -> list[Manifest]:
    """Return its permissions: suspend and resume clusters, and adapt their disruption budgets."""
    sets, clusters, budgets = (
        [api(name).group] for name in ("ray_cluster_set", "ray_cluster", "pod_disruption_budget")
    )
    state: Manifest = {"apiGroups": [""], "resourceNames": [STATE], "resources": ["configmaps"]}
    return [
        {"apiGroups": sets, "resources": [PLURAL], "verbs": ["list", "watch"]},
        {"apiGroups": sets, "resources": [f"{PLURAL}/status"], "verbs": ["patch"]},
        {"apiGroups": clusters, "resources": ["rayclusters"], "verbs": ["list", "patch"]},
        {"apiGroups": budgets, "resources": ["poddisruptionbudgets"], "verbs": ["get", "patch"]},
        {**state, "verbs": ["get"]},
    ]


def program() -> str:
    """Return the text of the program, which begins with that of its client of the API server."""
    client = Path(kube.__file__).read_text(encoding="utf-8")
    own = Path(__file__).with_name("scaler_program.py").read_text(encoding="utf-8")
    return f"{client}\n\n{own.replace(_CLIENT_IMPORT, '')}"


def _pod() -> Manifest:
    variables = {
        "CLUSTERS": api("ray_cluster").api_version,
        "NEEDS": NEEDS,
        "SETS": api("ray_cluster_set").api_version,
        "STATE": STATE,
    }
    return {
        "automountServiceAccountToken": True,
        "containers": [
            {
                "command": ["python3", "-c", program()],
                "env": [{"name": name, "value": value} for name, value in variables.items()],
                "image": image("weights_gate").reference,
                "name": NAME,
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
