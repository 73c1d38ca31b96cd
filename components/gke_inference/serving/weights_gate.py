"""Keeps model servers at zero replicas until their weights are in the bucket.

For why this is neither a gate on each pod nor a program that polls the bucket, see
docs/adr/0019-weights-gate.md.
"""

from typing import TypedDict

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
from gke_inference.serving.launch import FOLDER, HOME, launcher_files
from gke_inference.serving.launcher.spec import STATE

COMPONENT = "weights-gate"
NAME = "weights-gate"
"""Name of its objects and of the service account, which must exist."""

_USER = 65532
_WORKLOADS = ("deployment", "leader_worker_set")
_SET = "ray_cluster_set"
_SCALER = "autoscaler"
_SUSPENDED = "ray_cluster"


class WeightsGateArgs(TypedDict):
    """Inputs of `WeightsGate`."""

    namespace: str
    """Namespace of the servers."""
    service_account: str
    """Kubernetes service account that may read the weight buckets (`WorkloadIdentity`)."""


class WeightsGate(pulumi.ComponentResource):
    """A small Deployment that starts a namespace's servers once their weights are available.

    It looks for the manifests that `gke-inference models push` writes last. A `ModelServer` with
    `has_gate` starts with zero replicas, so no accelerator is requested before it can be used. The
    gate scales it once, to its initial number of replicas; a Ray cluster starts suspended, and the
    gate resumes it. Running servers do not need the gate. It also gives one replica to a target
    that a new autoscaler found at zero and would leave there.
    """

    state_name: str
    """Name of the ConfigMap that lists which server waits for which weights."""

    def __init__(
        self, name: str, args: WeightsGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:WeightsGate", name, {}, opts)
        args = checked(WeightsGateArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        account = name_of(args, "service_account", "namespace")
        before: list[pulumi.Resource] = []
        for role, obj in gate_objects(namespace, account).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            before.append(register(logical, obj, under(self, depends_on=list(before))))
        self.state_name = STATE
        self.register_outputs({"stateName": self.state_name})


def gate_objects(namespace: str, account: str) -> dict[str, Manifest]:
    """Return the gate's objects by role, in creation order."""
    labels = labels_for(NAME, COMPONENT)
    files = launcher_files()
    gate = service_account(account, namespace)
    return {
        "role": manifest("role", NAME, namespace, labels=labels, rules=_rules()),
        "binding": role_binding(NAME, NAME, [gate], namespace, labels=labels),
        "files": manifest("config_map", NAME, namespace, labels=labels, data=files),
        "deployment": deployment(NAME, namespace, COMPONENT, _pod(account), 1, files=files),
    }


def _rules() -> list[Manifest]:
    """Return its permissions: list and scale workloads, list scalers, update one ConfigMap."""
    rules: list[Manifest] = []
    for name in _WORKLOADS:
        kind = api(name)
        group, plural = [kind.api_version.partition("/")[0]], f"{kind.kind.lower()}s"
        rules.append({"apiGroups": group, "resources": [plural], "verbs": ["list", "watch"]})
        rules.append({"apiGroups": group, "resources": [f"{plural}/scale"], "verbs": ["patch"]})
    kind = api(_SUSPENDED)  # has no scale: the gate ends its suspension
    verbs = ["list", "patch", "watch"]
    resources = [f"{kind.kind.lower()}s"]
    rules.append({"apiGroups": [kind.group], "resources": resources, "verbs": verbs})
    kind = api(_SET)  # its clusters are opened, and the set itself is only scaled from zero
    resources = [f"{kind.kind.lower()}s/scale"]
    rules.append({"apiGroups": [kind.group], "resources": resources, "verbs": ["patch"]})
    kind = api(_SCALER)
    resources = [f"{kind.kind.lower()}s"]
    rules.append({"apiGroups": [kind.group], "resources": resources, "verbs": ["list"]})
    own: Manifest = {"apiGroups": [""], "resources": ["configmaps"]}
    rules.append({**own, "verbs": ["create"]})
    rules.append({**own, "resourceNames": [STATE], "verbs": ["get", "patch"]})
    return rules


def _pod(account: str) -> Manifest:
    return {
        "automountServiceAccountToken": True,
        "containers": [
            {
                "command": ["python3", "-m", "engine.gate"],
                "env": [
                    {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
                    {"name": "PYTHONPATH", "value": HOME},
                ],
                "image": image("weights_gate").reference,
                "name": COMPONENT,
                "resources": {
                    "limits": {"memory": "128Mi"},
                    "requests": {"cpu": "20m", "memory": "64Mi"},
                },
                "securityContext": HARDENED_CONTAINER,
                "volumeMounts": [{"mountPath": FOLDER, "name": "program", "readOnly": True}],
            }
        ],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": account,
        "volumes": [{"configMap": {"name": NAME}, "name": "program"}],
    }
