"""Statuses: times, other controllers' entries, and nothing written twice."""

from typing import Any

import pytest

from twin.cluster.gateway.status import StatusWriter, merged_status
from twin.cluster.gateway.translation.conditions import Condition, StatusUpdate, parent_status
from twin.wire.kube import KubeError

OLD, NOW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
REF = {"name": "gw"}


def route(*parents, generation=2):
    metadata = {"name": "r", "namespace": "ns", "uid": "u", "generation": generation}
    return {"kind": "HTTPRoute", "metadata": metadata, "status": {"parents": list(parents)}}


def update(ok=True):
    entry = parent_status(REF, [Condition("Accepted", ok, "R", "m")])
    return StatusUpdate("HTTPRoute", ("ns", "r"), {"parents": [entry]})


def ours(status, time=OLD):
    condition = {
        "type": "Accepted",
        "status": status,
        "reason": "R",
        "message": "m",
        "observedGeneration": 2,
        "lastTransitionTime": time,
    }
    return {
        "parentRef": {**REF, "group": "gateway.networking.k8s.io"},
        "controllerName": "networking.gke.io/gateway",
        "conditions": [condition],
    }


@pytest.mark.parametrize(("before", "time"), [("True", OLD), ("False", NOW)])
def test_a_condition_keeps_its_time_until_it_changes(before, time):
    found = merged_status(route(ours(before)), update(), NOW)
    assert found["parents"][0]["conditions"][0]["lastTransitionTime"] == time
    assert found["parents"][0]["conditions"][0]["observedGeneration"] == 2


def test_entries_of_other_controllers_stay():
    other = {"parentRef": REF, "controllerName": "istio", "conditions": []}
    found = merged_status(route(other), update(), NOW)
    assert [p["controllerName"] for p in found["parents"]] == ["istio", "networking.gke.io/gateway"]


class FakeKube:
    def __init__(self, failure=None):
        self.sent, self.failure = [], failure

    def patch(self, path, body, kind):
        self.sent.append((path, body, kind))
        if self.failure:
            raise self.failure
        return {}


def test_a_status_goes_to_the_status_of_its_object_once():
    kube: Any = FakeKube()
    writer = StatusWriter(kube)
    writer.write(route(), update())
    writer.write(route(), update())
    ((path, body, kind),) = kube.sent
    assert path == "/apis/gateway.networking.k8s.io/v1/namespaces/ns/httproutes/r/status"
    assert kind == "merge"
    assert body["status"]["parents"][0]["conditions"][0]["status"] == "True"


def test_a_changed_status_or_generation_is_written_again():
    kube: Any = FakeKube()
    writer = StatusWriter(kube)
    writer.write(route(), update())
    writer.write(route(), update(ok=False))
    writer.write(route(generation=3), update(ok=False))
    assert len(kube.sent) == 3


def test_a_write_that_failed_is_tried_again():
    kube: Any = FakeKube(KubeError(500, "InternalError", "no", {}))
    writer = StatusWriter(kube)
    writer.write(route(), update())
    writer.write(route(), update())
    assert len(kube.sent) == 2


def test_cluster_scoped_objects_have_no_namespace_in_their_path():
    kube: Any = FakeKube()
    condition = Condition("Accepted", True, "Accepted").as_json()
    obj = {"metadata": {"name": "c", "uid": "u"}}
    StatusWriter(kube).write(
        obj, StatusUpdate("GatewayClass", ("", "c"), {"conditions": [condition]})
    )
    assert kube.sent[0][0] == "/apis/gateway.networking.k8s.io/v1/gatewayclasses/c/status"
