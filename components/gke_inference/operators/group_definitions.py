"""CustomResourceDefinitions of the LeaderWorkerSet operator, which GKE does not install.

The operator watches both kinds and does not start without them. Fields: sigs.k8s.io/lws v0.9.0,
config/crd/bases, without the 1.3 MB schema of pod templates and volume claims, because the API
server validates pods when they are created.
"""

from typing import Any

from gke_inference.base.custom_definitions import definition
from gke_inference.base.manifests import Manifest

_COMPONENT = "group-operator"
# Pulumi's spelling of `x-kubernetes-…`; its provider converts it to dashes.
_ANY: Manifest = {"type": "object", "x_kubernetes_preserve_unknown_fields": True}
_COUNT_OR_PERCENT: Manifest = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x_kubernetes_int_or_string": True,
}
_INTEGER: Manifest = {"format": "int32", "type": "integer"}
_TEXT: Manifest = {"type": "string"}
_RESTART = ["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]


def definitions() -> dict[str, Manifest]:
    """Return the definitions by role: `groups` and `phases`."""
    return {
        "groups": definition(
            "leader_worker_set",
            "leaderworkersets",
            _COMPONENT,
            spec=_group_spec(),
            status=_group_status(),
            names={"shortNames": ["lws"]},
            version={"additionalPrinterColumns": _columns()},
            subresources={
                "scale": {
                    "labelSelectorPath": ".status.hpaPodSelector",
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                },
                "status": {},
            },
        ),
        "phases": definition(
            "disaggregated_set",
            "disaggregatedsets",
            _COMPONENT,
            spec={"properties": {"roles": _roles()}, "required": ["roles"], "type": "object"},
            status=_ANY,
        ),
    }


def _object(properties: dict[str, Any], required: list[str] | None = None) -> Manifest:
    found: Manifest = {"properties": properties, "type": "object"}
    return {**found, "required": required} if required else found


def _word(*choices: str, default: str | None = None) -> Manifest:
    found: Manifest = {"enum": list(choices), "type": "string"}
    return found if default is None else {**found, "default": default}


def _group_spec() -> Manifest:
    """Return the spec of a set of groups."""
    updates = _object(
        {
            "maxSurge": {**_COUNT_OR_PERCENT, "default": 0},
            "maxUnavailable": {**_COUNT_OR_PERCENT, "default": 1},
            "partition": {**_INTEGER, "default": 0},
        }
    )
    kept = _object({"whenDeleted": _TEXT, "whenScaled": _TEXT})
    template = _object(
        {
            "leaderTemplate": _ANY,
            "persistentVolumeClaimRetentionPolicy": kept,
            "restartPolicy": _word(*_RESTART, default="RecreateGroupOnPodRestart"),
            "size": {**_INTEGER, "default": 1},
            "subGroupPolicy": _object(
                {
                    "subGroupPolicyType": _word(
                        "LeaderWorker", "LeaderExcluded", default="LeaderWorker"
                    ),
                    "subGroupSize": _INTEGER,
                }
            ),
            "volumeClaimTemplates": {"items": _ANY, "type": "array"},
            "workerTemplate": _ANY,
        },
        ["workerTemplate"],
    )
    rollout = _object(
        {
            "rollingUpdateConfiguration": updates,
            "type": _word("RollingUpdate", default="RollingUpdate"),
        },
        ["type"],
    )
    return _object(
        {
            "leaderWorkerTemplate": template,
            "networkConfig": _object(
                {"subdomainPolicy": _word("Shared", "UniquePerReplica")}, ["subdomainPolicy"]
            ),
            "replicas": {**_INTEGER, "default": 1},
            "rolloutStrategy": rollout,
            "startupPolicy": _word("LeaderCreated", "LeaderReady", default="LeaderCreated"),
        },
        ["leaderWorkerTemplate"],
    )


def _group_status() -> Manifest:
    numbers = ("observedGeneration", "readyReplicas", "replicas", "updatedReplicas")
    return _object(
        {
            "conditions": {"items": _ANY, "type": "array"},
            "hpaPodSelector": _TEXT,
            **{name: {"type": "integer"} for name in numbers},
        }
    )


def _columns() -> list[Manifest]:
    shown = (
        ("Ready", ".status.readyReplicas", "integer"),
        ("Desired", ".spec.replicas", "integer"),
        ("Up-to-date", ".status.updatedReplicas", "integer"),
        ("Age", ".metadata.creationTimestamp", "date"),
    )
    return [{"jsonPath": path, "name": name, "type": kind} for name, path, kind in shown]


def _roles() -> Manifest:
    role = _object({"metadata": _ANY, "name": _TEXT, "spec": _ANY}, ["name"])
    return {"items": role, "type": "array"}
