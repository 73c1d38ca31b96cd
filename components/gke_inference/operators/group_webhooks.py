"""Webhooks of the LeaderWorkerSet operator, which default and validate groups and their pods.

Objects: sigs.k8s.io/lws v0.9.0, config/webhook. The operator finds them by name and writes its CA
into them.
"""

from functools import partial

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.versions import api

_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/name"


def webhooks(namespace: str, service: str) -> dict[str, Manifest]:
    """Return the webhook configurations by role: `mutating` and `validating`.

    Args:
        namespace: Namespace of the operator.
        service: Name of the operator's Service.
    """
    group, phases = api("leader_worker_set"), api("disaggregated_set")
    groups = (group.group, _version(group.api_version), "leaderworkersets")
    roles = (phases.group, _version(phases.api_version), "disaggregatedsets")
    pods = ("", "v1", "pods")
    both = ["CREATE", "UPDATE"]
    hook = partial(_hook, {"name": service, "namespace": namespace})
    kind = f"{groups[0].replace('.', '-')}-{groups[1]}-leaderworkerset"
    role = f"{roles[0].replace('.', '-')}-{roles[1]}-disaggregatedset"
    return {
        "mutating": manifest(
            "mutating_webhooks",
            "lws-mutating-webhook-configuration",
            labels=labels_for("lws-webhooks", "group-operator"),
            webhooks=[
                hook("mleaderworkerset.kb.io", f"/mutate-{kind}", groups, both, marked=False),
                hook("mpod.kb.io", "/mutate--v1-pod", pods, ["CREATE"], marked=True),
            ],
        ),
        "validating": manifest(
            "validating_webhooks",
            "lws-validating-webhook-configuration",
            labels=labels_for("lws-webhooks", "group-operator"),
            webhooks=[
                hook("vleaderworkerset.kb.io", f"/validate-{kind}", groups, both, marked=False),
                hook("vpod.kb.io", "/validate--v1-pod", pods, both, marked=True),
                hook("vdisaggregatedset.kb.io", f"/validate-{role}", roles, both, marked=False),
            ],
        ),
    }


def _hook(
    service: dict[str, str],
    name: str,
    path: str,
    of: tuple[str, str, str],
    operations: list[str],
    *,
    marked: bool,
) -> Manifest:
    made: Manifest = {
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {**service, "path": path}},
        "failurePolicy": "Fail",
        "name": name,
        "rules": [
            {
                "apiGroups": [of[0]],
                "apiVersions": [of[1]],
                "operations": operations,
                "resources": [of[2]],
            }
        ],
        "sideEffects": "None",
    }
    if marked:  # other pods never depend on this operator
        expression = {"key": _GROUP_LABEL, "operator": "Exists"}
        made["objectSelector"] = {"matchExpressions": [expression]}
    return made


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
