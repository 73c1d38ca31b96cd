"""The store: only relevant changes wake the controller, and a new list replaces old objects."""

import copy

from twin.cluster.gateway.store import Store
from twin.tests.unit.gateway.builders import pod

READY = pod("p", "127.64.0.1", {"a": "b"})


def store_with(*objects):
    store = Store()
    for item in objects:
        store.put(item["kind"], item)
    store.changed.clear()
    return store


def test_a_change_that_no_gateway_sees_wakes_nobody():
    store = store_with(READY)
    later = copy.deepcopy(READY)
    later["status"]["startTime"] = "2026-01-01T00:00:00Z"
    store.put("Pod", later)
    assert not store.changed.is_set()
    assert store.copy()["Pod"]["ns", "p"] is later


def test_a_pod_that_is_no_longer_ready_wakes_the_controller():
    store = store_with(READY)
    store.put("Pod", pod("p", "127.64.0.1", {"a": "b"}, ready=False))
    assert store.changed.is_set()


def test_a_deleted_object_is_forgotten_but_not_its_successor():
    store = store_with(READY)
    old = copy.deepcopy(READY)
    old["metadata"]["uid"] = "older"
    store.drop("Pod", old)
    assert not store.changed.is_set()
    store.drop("Pod", READY)
    assert store.changed.is_set()
    assert store.copy()["Pod"] == {}


def test_what_a_new_list_lacks_is_gone():
    store = store_with(READY, pod("q", "127.64.0.2", {}))
    store.keep("Pod", {("ns", "q")})
    assert list(store.copy()["Pod"]) == [("ns", "q")]
    assert "Pod" in store.synced
