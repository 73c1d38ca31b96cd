"""Targets of the proxy between the API server and the cluster."""

import pytest

from twin.cluster.controlplane.konnectivity import backends, target_of

SERVICE = {
    "metadata": {"name": "webhook", "namespace": "n"},
    "spec": {"selector": {"app": "op"}, "ports": [{"port": 443, "targetPort": "hook"}]},
}


def pod(name: str, *, ready: bool = True, app: str = "op", **metadata) -> dict:
    return {
        "metadata": {"name": name, "labels": {"app": app}, **metadata},
        "spec": {"containers": [{"ports": [{"name": "hook", "containerPort": 9443}]}]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def names(service: dict, port: int, pods: list[dict]) -> list[tuple[str, int]]:
    return [(item["metadata"]["name"], number) for item, number in backends(service, port, pods)]


def test_a_service_leads_to_the_named_port_of_its_ready_pods():
    pods = [
        pod("ready"),
        pod("starting", ready=False),
        pod("ending", deletionTimestamp="2026-11-21T00:00:00Z"),
        pod("other", app="web"),
    ]
    assert names(SERVICE, 443, pods) == [("ready", 9443)]


def test_a_port_that_the_service_has_not_leads_nowhere():
    assert names(SERVICE, 80, [pod("ready")]) == []


def test_a_service_without_a_selector_leads_nowhere():
    service = {**SERVICE, "spec": {"ports": SERVICE["spec"]["ports"]}}
    assert names(service, 443, [pod("ready")]) == []


def test_a_target_is_an_address_and_a_port():
    assert target_of("10.96.0.7:443") == ("10.96.0.7", 443)
    assert target_of("[::1]:443") == ("::1", 443)


@pytest.mark.parametrize("text", ["10.96.0.7", "10.96.0.7:", "a:b"])
def test_a_target_of_another_form_is_refused(text: str):
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        target_of(text)
