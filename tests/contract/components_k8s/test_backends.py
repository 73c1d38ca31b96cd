"""Relays as components: what they refuse, and what their objects say to Kubernetes."""

from typing import Any

import pulumi
import pytest

from gke_inference import BackendAccess, ModelBackends, PoolFallback
from tests.contract.components_k8s.crds import check

TARGET: dict[str, Any] = {"kind": "openai", "model": "m", "secret": "projects/p/secrets/s"}
BACKENDS: dict[str, Any] = {
    "backends": {"gpt": {"targets": [TARGET], "timeout_seconds": 300}},
    "exposure": "internal",
    "gateway_name": "inference",
    "namespace": "serving",
    "relay_name": "relay",
    "service_account": "relay",
}
FALLBACK: dict[str, Any] = {
    "after_queue": 8,
    "backend": {"targets": [TARGET]},
    "input_usd_per_million": 1.0,
    "model_name": "llama-3.1-8b",
    "monthly_usd": 100.0,
    "namespace": "serving",
    "output_usd_per_million": 2.0,
    "pool_name": "llama-8b",
    "relay_name": "relay-llama-8b",
    "service_account": "relay",
}


def backends(recorder: Any, **changes: Any) -> Any:
    args: Any = {**BACKENDS, **changes}
    recorder.run(lambda: ModelBackends("relay", args).service_name)
    return recorder


def fallback(recorder: Any, **changes: Any) -> Any:
    args: Any = {**FALLBACK, **changes}
    recorder.run(lambda: PoolFallback("fallback", args).deployment_name)
    return recorder


def test_the_load_balancer_waits_as_long_as_the_slowest_backend_and_checks_health(recorder):
    seen = backends(recorder)
    policy = seen.one("kubernetes:networking.gke.io/v1:GCPBackendPolicy").inputs
    check(policy)
    assert policy["spec"]["default"]["timeoutSec"] == 300
    health = seen.one("kubernetes:networking.gke.io/v1:HealthCheckPolicy").inputs
    check(health)
    assert health["spec"]["default"]["config"]["httpHealthCheck"]["requestPath"] == "/health"
    check(seen.one("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute").inputs)
    pod = seen.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 300 + 25 + 10
    assert "--grace=300s" in pod["containers"][0]["args"]


def test_without_callers_nothing_closes_a_relay(recorder):
    assert not backends(recorder).all("kubernetes:networking.k8s.io/v1:NetworkPolicy")


def test_a_fallback_that_is_never_ready_keeps_no_run_waiting(recorder):
    made = fallback(recorder).one("kubernetes:apps/v1:Deployment").inputs
    assert made["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({**TARGET, "kind": "openia"}, "kind"),
        ({**TARGET, "secret": None}, "secret.*is required when kind is openai"),
        ({**TARGET, "url": "https://x.example"}, "url.*must not be set when kind is openai"),
        ({**TARGET, "weight": 0}, "must be 1 to 1000, got 0"),
        ({"kind": "vertex", "model": "m", "location": "us-east5"}, "project.*is required"),
        (
            {
                "kind": "cloud-run",
                "model": "m",
                "service": "projects/p/locations/l/services/s",
                "url": "https://s.run.app",
            },
            "serviceAccount.*is required",
        ),
    ],
)
def test_a_wrong_target_is_refused(recorder, target: dict[str, Any], message: str):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        backends(recorder, backends={"gpt": {"targets": [target]}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"after_queue": 0}, "must be 1 to 10000, got 0"),
        ({"monthly_usd": 0.0}, "must be more than 0 and at most 1000000000, got 0"),
        ({"input_usd_per_million": 0.0, "output_usd_per_million": 0.0}, "more than 0"),
        ({"backend": {"targets": []}}, "must have at least 1 entry, got 0"),
        ({"wait": {"requests": 0, "expected_seconds": 9, "timeout_seconds": 9}}, "1 to 200, got 0"),
    ],
)
def test_a_wrong_fallback_is_refused(recorder, changes: dict[str, Any], message: str):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        fallback(recorder, **changes)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (["monthly_usd"], r"'monthlyUsd', 'must be set with backend, got none'"),
        (["backend"], r"'backend', 'must be set without wait, got none'"),
    ],
)
def test_a_fallback_needs_a_backend_with_its_limits_or_requests_that_wait(
    recorder, left_out: list[str], message: str
):
    args: Any = {name: value for name, value in FALLBACK.items() if name not in left_out}
    with pytest.raises(pulumi.InputPropertyError, match=message):
        recorder.run(lambda: PoolFallback("fallback", args).deployment_name)


def test_no_backend_is_no_relay(recorder):
    with pytest.raises(pulumi.InputPropertyError, match="must have at least 1 entry, got 0"):
        backends(recorder, backends={})


def test_access_is_given_to_nothing_that_is_not_named(recorder):
    args: Any = {"principal": "principal://x", "project": "acme"}
    recorder.run(lambda: BackendAccess("access", args).secret_ids)
    assert [seen.type for seen in recorder.registrations if seen.type.startswith("gcp:")] == []
