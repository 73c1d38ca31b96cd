"""Permissions of Kueue: upstream's roles, limited to the kinds of jobs that queue here.

Objects: sigs.k8s.io/kueue v0.19.2, config/components/rbac.
"""

from typing import Final

from gke_inference.base.manifests import Manifest, manifest, role_binding, service_account
from gke_inference.catalogue.versions import api

from .queue_definitions import CONVERTED
from .queue_webhooks import MUTATING, VALIDATING

_READ: Final = ["get", "list", "watch"]
_CHANGE: Final = [*_READ, "patch", "update"]


def permissions(
    name: str, namespace: str, labels: dict[str, str], *, job_sets: bool = False
) -> dict[str, Manifest]:
    """Return roles and bindings by their role.

    Args:
        name: Name of the service account.
        namespace: Namespace of the service account.
        labels: Labels of the objects.
        job_sets: Whether sets of jobs (`JobSet`) queue as well.
    """
    account = [service_account(name, namespace)]
    role, certify, lead = "kueue-manager-role", "kueue-certificate-role", "kueue-election-role"
    secrets = [rule("", ["secrets"], ["get", "list", "update", "watch"])]
    return {
        "may": manifest("cluster_role", role, labels=labels, rules=_rules(job_sets=job_sets)),
        "binding": role_binding(f"{role}binding", role, account, labels=labels),
        "may-certify": manifest("role", certify, namespace, labels=labels, rules=secrets),
        "certifying": role_binding(f"{certify}binding", certify, account, namespace, labels=labels),
        "may-lead": manifest("role", lead, namespace, labels=labels, rules=_election()),
        "election": role_binding(f"{lead}binding", lead, account, namespace, labels=labels),
    }


def rule(
    group: str, resources: list[str], verbs: list[str], names: list[str] | None = None
) -> Manifest:
    """Return a rule of a Role; without names, it is for every resource of the kinds."""
    found: Manifest = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return found if names is None else {**found, "resourceNames": names}


def _rules(*, job_sets: bool) -> list[Manifest]:
    hooks = api("mutating_webhooks").group
    definitions, kueue = api("custom_resource_definition").group, api("cluster_queue").group
    mutating, validating = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
    return [
        rule("", ["limitranges", "namespaces", "nodes"], _READ),
        rule("", ["pods"], [*_CHANGE, "delete"]),
        rule("", ["pods/finalizers"], ["get", "update"]),
        rule("", ["pods/status"], ["get", "patch"]),
        rule("", ["podtemplates"], ["create", "delete", "get", "list", "update", "watch"]),
        rule(hooks, [mutating, validating], ["list", "watch"]),
        rule(hooks, [mutating], ["get", "update"], [MUTATING]),
        rule(hooks, [validating], ["get", "update"], [VALIDATING]),
        rule(definitions, ["customresourcedefinitions"], ["list", "watch"]),
        rule(
            definitions,
            ["customresourcedefinitions"],
            ["get", "update"],
            [f"{plural}.{kueue}" for plural in CONVERTED],
        ),
        rule(api("deployment").group, ["deployments", "replicasets", "statefulsets"], _READ),
        rule("autoscaling.x-k8s.io", ["provisioningrequests"], [*_CHANGE, "create", "delete"]),
        rule("autoscaling.x-k8s.io", ["provisioningrequests/status"], ["get"]),
        rule(api("job").group, ["jobs"], [*_CHANGE, "delete"]),
        rule(api("job").group, ["jobs/finalizers", "jobs/status"], ["get", "patch", "update"]),
        rule(api("event").group, ["events"], ["create", "patch", "update", "watch"]),
        rule("node.k8s.io", ["runtimeclasses"], _READ),
        rule(
            "resource.k8s.io",
            ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"],
            _READ,
        ),
        rule("scheduling.k8s.io", ["priorityclasses"], _READ),
        *(_of_sets(api("job_set").group) if job_sets else []),
        *_own(kueue),
    ]


def _of_sets(group: str) -> list[Manifest]:
    return [
        rule(group, ["jobsets"], [*_CHANGE, "delete"]),
        rule(group, ["jobsets/finalizers"], ["get", "update"]),
        rule(group, ["jobsets/status"], ["get", "patch", "update"]),
    ]


def _own(group: str) -> list[Manifest]:
    """Return the permissions on Kueue's own kinds."""
    shared = ["admissionchecks", "clusterqueues", "resourceflavors", "topologies"]
    read = ["cohorts", "localqueues", "multikueueclusters", "multikueueconfigs"]
    written = ["admissionchecks", "clusterqueues", "cohorts", "localqueues", "workloads"]
    return [
        rule(group, shared, ["get", "list", "update", "watch"]),
        rule(group, [f"{each}/finalizers" for each in [*shared, "workloads"]], ["update"]),
        rule(group, [f"{each}/status" for each in written], ["get", "patch", "update"]),
        rule(group, [*read, "provisioningrequestconfigs", "workloadpriorityclasses"], _READ),
        rule(group, ["workloads"], [*_CHANGE, "create", "delete"]),
    ]


def _election() -> list[Manifest]:
    every = [*_CHANGE, "create", "delete"]
    return [
        rule("", ["configmaps"], every),
        rule(api("lease").group, ["leases"], every),
        rule("", ["events"], ["create", "patch"]),
    ]
