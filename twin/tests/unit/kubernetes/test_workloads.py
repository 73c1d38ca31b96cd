"""When workloads and conditions are ready, held to the rules of the official provider.

Every case has the place of its rule in pulumi/pulumi-kubernetes v4.32.0, read 2026-11-22.
"""

import pytest

from twin.providers.kubernetes.manifests.managers import adopted, manager_of, takes_over
from twin.providers.kubernetes.waits import check_of, limit_of, simple, workloads
from twin.wire.kube import Kube

SEEN = {"observedGeneration": 2}
STATEFUL = {"currentRevision": "a", "updateRevision": "a", "currentReplicas": 2}


class NoPods(Kube):
    """An API without pods."""

    def __init__(self):
        pass

    def list(self, path, label_selector=None, field_selector=None):
        return []


def obj(spec, status, generation=2):
    metadata = {"name": "x", "namespace": "n", "generation": generation}
    return {"metadata": metadata, "spec": spec, "status": {**SEEN, **status}}


STATEFUL_SETS = "provider/pkg/await/statefulset.go, processStatefulSetEvent"
DAEMON_SETS = "provider/pkg/await/daemonset.go, rolloutComplete (kstatus)"
JOBS = "provider/pkg/await/checker/job/check.go"
DEPLOYMENTS = "provider/pkg/await/deployment.go, checkAndLogStatus"
ALL_READY = {"replicas": 2, "readyReplicas": 2, **STATEFUL}
DAEMONS = {
    "desiredNumberScheduled": 2,
    "currentNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberAvailable": 2,
    "numberReady": 2,
}
BY_HAND = {"updateStrategy": {"type": "OnDelete"}}
CASES = [
    (workloads.stateful_set_ready, {"replicas": 2}, ALL_READY, True, STATEFUL_SETS),
    (
        workloads.stateful_set_ready,
        {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
        {**ALL_READY, "updateRevision": "b"},
        False,
        STATEFUL_SETS,
    ),
    (
        workloads.stateful_set_ready,
        {"replicas": 2, **BY_HAND},
        {**ALL_READY, "updateRevision": "b", "currentReplicas": 0},
        True,
        STATEFUL_SETS,
    ),
    (workloads.stateful_set_ready, {"replicas": 1}, ALL_READY, False, STATEFUL_SETS),
    (workloads.daemon_set_ready, {}, DAEMONS, True, DAEMON_SETS),
    (
        workloads.daemon_set_ready,
        BY_HAND,
        {**DAEMONS, "updatedNumberScheduled": 1},
        False,
        DAEMON_SETS,
    ),
    (workloads.daemon_set_ready, {}, {**DAEMONS, "numberReady": 1}, False, DAEMON_SETS),
    (workloads.job_ready, {"suspend": True}, {}, False, JOBS),
    (
        workloads.job_ready,
        {},
        {"conditions": [{"type": "Complete", "status": "True"}]},
        True,
        JOBS,
    ),
    (workloads.deployment_ready, {"replicas": 2, "paused": True}, {}, False, DEPLOYMENTS),
]


@pytest.mark.parametrize(("check", "spec", "status", "ready", "source"), CASES)
def test_a_workload_is_ready_when_the_official_provider_calls_it_so(
    check, spec, status, ready, source
):
    assert source.startswith("provider/pkg/await/")
    assert check(obj(spec, status), NoPods()).ready is ready


def test_a_condition_of_an_older_generation_does_not_count():
    """Source: provider/pkg/await/condition/kubectl.go, checkCondition."""
    check = simple.expression_ready("condition=Ready")
    condition = {"type": "Ready", "status": "True", "observedGeneration": 1}
    assert not check(obj({}, {"conditions": [condition]}), NoPods()).ready
    assert check(obj({}, {"conditions": [{**condition, "observedGeneration": 2}]}), NoPods()).ready
    without = {"type": "Ready", "status": "True"}
    assert not check(obj({}, {"conditions": [without], "observedGeneration": 1}), NoPods()).ready


def test_a_path_that_holds_a_boolean_compares_as_json_writes_it():
    """Source: provider/pkg/jsonpath/jsonpath.go, Matches."""
    check = simple.expression_ready("jsonpath={.status.on}=true")
    assert check(obj({}, {"on": True}), NoPods()).ready


def of_kind(api_version, kind, **annotations):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"annotations": annotations}}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Namespace"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("v1", "ConfigMap"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
    ],
)
def test_a_kind_that_is_not_in_the_table_is_not_waited_for(api_version, kind):
    """Source: provider/pkg/await/awaiters.go, awaiters."""
    assert check_of(of_kind(api_version, kind), 0) is None


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("PersistentVolume", 300), ("PersistentVolumeClaim", 300), ("ResourceQuota", 60)],
)
def test_volumes_and_quotas_have_a_limit_whatever_time_was_asked_for(kind, seconds):
    """Source: provider/pkg/await/awaiters.go, WatchUntil."""
    assert limit_of(of_kind("v1", kind), 900) == seconds
    assert limit_of(of_kind("v1", kind), 5) == 5


def test_the_manager_is_annotated_or_kept_or_random():
    """Source: provider/pkg/provider/provider.go, fieldManagerName."""
    named = of_kind("v1", "ConfigMap", **{"pulumi.com/patchFieldManager": "mine"})
    assert manager_of(named, {"__fieldManager": "kept"}) == "mine"
    plain = of_kind("v1", "ConfigMap")
    assert manager_of(plain, {"__fieldManager": "kept"}) == "kept"
    first, second = manager_of(plain, {}), manager_of(plain, {})
    assert first != second
    assert first.startswith("pulumi-kubernetes-")


def entry(manager, operation, **fields):
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def test_an_update_takes_over_what_kubectl_and_the_creation_own():
    """Source: provider/pkg/await/await.go, fixCSAFieldManagers."""
    entries = [
        entry("mine", "Apply", **{"f:data": {"f:a": {}}}),
        entry("kubectl-edit", "Update", **{"f:data": {"f:b": {}}}),
        entry("pulumi-kubernetes", "Update", **{"f:data": {"f:c": {}}}),
        entry("pulumi-kubernetes-0a0a0a0a", "Apply", **{"f:data": {"f:d": {}}}),
        {**entry("kubectl-scale", "Update", **{"f:spec": {}}), "subresource": "scale"},
    ]
    owned = entry("mine", "Apply", **{"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}})
    assert adopted(entries, "mine") == [entries[3], entries[4], owned]
    assert adopted(entries[3:], "mine") is None


@pytest.mark.parametrize(
    ("live", "is_preview", "forces"),
    [
        (None, False, False),
        (None, True, True),
        ([entry("pulumi-kubernetes", "Update")], False, False),
        ([entry("pulumi-kubernetes", "Update")], True, True),
        ([entry("other", "Apply")], True, False),
        ([], False, True),
    ],
)
def test_an_apply_forces_where_the_official_one_does(live, is_preview, forces):
    """Source: provider/pkg/await/await.go, patchForce."""
    found = None if live is None else {"metadata": {"managedFields": live}}
    wanted = of_kind("v1", "ConfigMap")
    assert takes_over(wanted, found, is_enabled=False, is_preview=is_preview) is forces
    assert takes_over(wanted, found, is_enabled=True, is_preview=is_preview)


def test_a_path_may_have_a_key_with_dots():
    check = simple.expression_ready(r"jsonpath={.metadata.annotations.a\.b\.io/rules}")
    assert check({"metadata": {"annotations": {"a.b.io/rules": "one"}}}, NoPods()).ready is True
    assert check({"metadata": {}}, NoPods()).ready is False
