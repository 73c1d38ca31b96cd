"""Pods with a readiness gate wait for the load balancer of their pool, as on GKE."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gke_inference.base.manifests import LOAD_BALANCER_GATES
from twin.cluster.gateway.readiness import ReadinessGates
from twin.cluster.gateway.translation.model import Backend, GatewayModel
from twin.cluster.gateway.translation.objects import is_endpoint
from twin.tests.unit.gateway import builders
from twin.world.rules import Rules

LABELS, ADDRESS = {"model": "llama"}, "127.0.0.9"
POOL = "pool/ns/llama"
MODEL = GatewayModel("ns", "gw", "127.32.0.1", backends=(Backend(POOL, ()),))


class Api:
    """An API server that notes the conditions of pods."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def patch(self, path: str, body: Any, kind: str) -> None:
        assert (path, kind) == ("/api/v1/namespaces/ns/pods/llama-0/status", "strategic")
        (condition,) = body["status"]["conditions"]
        self.reasons.append(condition["reason"])


def waiting(**conditions: str) -> dict[str, Any]:
    pod = builders.pod("llama-0", ADDRESS, LABELS, ready=False)
    pod["spec"]["readinessGates"] = LOAD_BALANCER_GATES
    pod["metadata"]["creationTimestamp"] = datetime.now(UTC).isoformat()
    found = {"ContainersReady": "True", **conditions}
    pod["status"]["conditions"] += [{"type": k, "status": v} for k, v in found.items()]
    return pod


def written(pod: dict[str, Any], healthy: str = "", models: tuple[GatewayModel, ...] = (MODEL,)):
    """Return the reasons of the conditions that two looks write."""
    api: Any = Api()
    objects = {
        "Pod": {("ns", "llama-0"): pod},
        "InferencePool": {("ns", "llama"): builders.pool("llama")},
    }
    gates = ReadinessGates(Rules(speed=10))
    for _ in range(2):
        gates.write(api, objects, models, lambda: {(POOL, healthy)})
    return api.reasons


def test_a_pod_waits_until_the_load_balancer_finds_it_healthy() -> None:
    assert written(waiting()) == []
    assert written(waiting(), healthy=ADDRESS) == ["LoadBalancerNegReady"]


def test_a_pod_whose_containers_are_not_ready_is_no_endpoint_that_could_be_healthy() -> None:
    pod = waiting(ContainersReady="False")
    assert written(pod, healthy=ADDRESS) == []
    assert not is_endpoint(pod)


def test_a_pod_that_only_waits_for_the_load_balancer_is_an_endpoint_of_it() -> None:
    assert is_endpoint(waiting())


def test_a_pod_that_waits_for_another_gate_is_no_endpoint() -> None:
    pod = waiting()
    pod["spec"]["readinessGates"] = [*LOAD_BALANCER_GATES, {"conditionType": "example.com/other"}]
    assert not is_endpoint(pod)


def test_a_pod_of_no_load_balancer_does_not_wait() -> None:
    assert written(waiting(), models=()) == ["LoadBalancerNegReady"]


@pytest.mark.parametrize(("seconds", "found"), [(55, []), (65, ["LoadBalancerNegTimeout"])])
def test_a_pod_waits_for_ten_minutes_of_googles_clock_at_most(seconds: int, found: list[str]):
    pod = waiting()
    created = datetime.now(UTC) - timedelta(seconds=seconds)
    pod["metadata"]["creationTimestamp"] = created.isoformat()
    assert written(pod) == found
