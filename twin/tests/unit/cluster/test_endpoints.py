"""Endpoints of Services, and connections to the twin's metrics APIs."""

import pytest

from twin.cluster.base.api_extension import has_adapter, note_port, port_behind
from twin.cluster.controlplane.endpoints import endpoints_of, slice_of

SERVICE = {
    "metadata": {"name": "front", "namespace": "n", "uid": "u", "labels": {"team": "ml"}},
    "spec": {"selector": {"app": "server"}, "ports": [{"name": "http", "port": 80}]},
}


def pod(name, *, ready=True, address="127.122.1.2", app="server", phase="Running", **metadata):
    return {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": name,
            "labels": {"app": app},
            **metadata,
        },
        "spec": {
            "nodeName": "one",
            "containers": [{"ports": [{"name": "web", "containerPort": 8000}]}],
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            **({"podIP": address} if address else {}),
        },
    }


def names(subset, kind):
    return [item["targetRef"]["name"] for item in subset.get(kind, [])]


def test_ready_pods_and_pods_that_start_are_kept_apart():
    made = endpoints_of(SERVICE, [pod("b", ready=False), pod("a")])
    [subset] = made["subsets"]
    assert names(subset, "addresses") == ["a"]
    assert names(subset, "notReadyAddresses") == ["b"]
    assert subset["addresses"][0]["ip"] == "10.122.1.2"
    assert subset["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]
    assert made["metadata"]["labels"]["team"] == "ml"


@pytest.mark.parametrize(
    "change",
    [
        {"address": ""},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
        {"deletionTimestamp": "2026-11-22T00:00:00Z"},
        {"app": "other"},
    ],
)
def test_a_pod_that_cannot_answer_or_is_not_selected_is_left_out(change):
    assert endpoints_of(SERVICE, [pod("a", **change)])["subsets"] == []


def test_pods_with_other_numbers_for_a_named_port_are_another_subset():
    service = {**SERVICE, "spec": {**SERVICE["spec"], "ports": [{"port": 80, "targetPort": "web"}]}}
    other = pod("b")
    other["spec"]["containers"][0]["ports"][0]["containerPort"] = 9000
    subsets = endpoints_of(service, [pod("a"), other])["subsets"]
    assert [subset["ports"][0]["port"] for subset in subsets] == [8000, 9000]


def test_a_service_that_publishes_pods_early_calls_them_ready():
    service = {**SERVICE, "spec": {**SERVICE["spec"], "publishNotReadyAddresses": True}}
    [subset] = endpoints_of(service, [pod("a", ready=False)])["subsets"]
    assert names(subset, "addresses") == ["a"]


def test_a_slice_has_the_addresses_of_the_endpoints():
    made = endpoints_of(SERVICE, [pod("a"), pod("b", ready=False)])
    found = slice_of(SERVICE, made)
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "front"
    assert [item["conditions"]["ready"] for item in found["endpoints"]] == [True, False]
    assert found["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]


GROUP = "external.metrics.k8s.io"


def registration(group, name):
    return {"spec": {"group": group, "service": {"namespace": "n", "name": name}}}


@pytest.mark.parametrize(
    ("group", "name", "port"),
    [(GROUP, "front", 4711), (GROUP, "other", None), ("example.com", "front", None)],
)
def test_the_service_of_an_adapter_leads_to_what_the_twin_serves(tmp_path, group, name, port):
    note_port(tmp_path, GROUP, 4711)
    assert port_behind(tmp_path, SERVICE, [registration(group, name)]) == port


@pytest.mark.parametrize(
    ("name", "role", "found"),
    [
        ("custom-metrics-auth-reader", "extension-apiserver-authentication-reader", True),
        ("system::extension-apiserver-reader", "extension-apiserver-authentication-reader", False),
        ("other", "view", False),
    ],
)
def test_an_adapter_is_known_by_the_role_that_it_needs(name, role, found):
    assert has_adapter([{"metadata": {"name": name}, "roleRef": {"name": role}}]) is found
