"""Turns of the clients at a full pool: the configuration of the picker, and what is refused."""

from typing import Any, cast

import pulumi
import pytest
import yaml

from gke_inference.gateway.inference_gateway import InferenceGatewayArgs, RoutedModelArgs
from tests.contract.components_k8s.gateway_args import CONFIG_MAP, LLAMA, args, build


def config(recorder: Any, **changes: Any) -> dict[str, Any]:
    made = cast("InferenceGatewayArgs", {**args(), **changes})
    build(recorder, made)
    data = recorder.object(CONFIG_MAP, "llama-8b-picker")["data"]
    return yaml.load(data["default-plugins.yaml"], yaml.CSafeLoader)


def test_the_queues_of_the_clients_take_turns_at_every_priority(recorder):
    found = config(recorder, fairness_wait_seconds=5)
    assert found["featureGates"] == ["flowControl"]
    assert found["flowControl"] == {
        "defaultPriorityBand": {
            "priority": 0,
            "fairnessPolicyRef": "round-robin-fairness-policy",
            "maxBytes": "256Mi",
        },
        "defaultRequestTTL": "5s",
    }
    assert {"type": "round-robin-fairness-policy"} in found["plugins"]


def test_the_queue_of_a_client_is_in_the_order_that_its_gate_gives_it(recorder):
    found = config(recorder, fairness_wait_seconds=5, pickers={"orders_sessions": True})
    band = found["flowControl"]["defaultPriorityBand"]
    assert band["orderingPolicyRef"] == "slo-deadline-ordering-policy"
    assert band["fairnessPolicyRef"] == "round-robin-fairness-policy"
    assert {"type": "slo-deadline-ordering-policy"} in found["plugins"]


def test_a_replica_with_a_waiting_request_has_no_room(recorder):
    found = config(recorder, fairness_wait_seconds=5)
    detector = next(each for each in found["plugins"] if each["type"] == "utilization-detector")
    assert found["saturationDetector"] == {"pluginRef": detector["type"]}
    assert detector["parameters"]["queueDepthThreshold"] == 1


def test_the_picker_sends_nothing_on_metrics_older_than_three_milliseconds(recorder):
    found = config(recorder, fairness_wait_seconds=5)
    detector = next(each for each in found["plugins"] if each["type"] == "utilization-detector")
    assert detector["parameters"]["metricsStalenessThreshold"] == "3ms"


def test_without_fairness_requests_go_to_a_replica_at_once(recorder):
    assert not {"featureGates", "flowControl", "saturationDetector"} & set(config(recorder))


@pytest.mark.parametrize("seconds", [0, 10])
def test_a_wait_beyond_the_limits_is_refused(recorder, seconds):
    with pytest.raises(pulumi.InputPropertyError, match=f"must be 1 to 9, got {seconds}"):
        config(recorder, fairness_wait_seconds=seconds)


def test_a_pool_of_roles_has_no_queues(recorder):
    roles: RoutedModelArgs = {**LLAMA, "prefill_threshold_tokens": 500}
    with pytest.raises(pulumi.InputPropertyError, match=r"'fairnessWaitSeconds', got 500"):
        config(recorder, models=[roles], fairness_wait_seconds=5)
