"""Gateways and models that are refused before anything is made."""

from typing import Any

import pytest

from tests.contract.components_k8s.gateway_args import EMBED, LLAMA, args, refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exposure": "public"}, "exposure.*external, internal, got 'public'"),
        ({"exposure": "internal"}, "subnetwork.*internal"),
        ({"asked_models": ["llama"]}, "askedGate.*must be set with asked_models"),
        ({"asked_gate": "gate:9010"}, "askedGate.*must be set with asked_models"),
        ({"hostname": "a.example.com"}, "hostname.*certificate"),
        ({"gateway_name": "G"}, "gatewayName.*got 'G'"),
        ({"gateway_name": "g" * 52}, "gatewayName.*at most 51"),
        ({"models": []}, "at least one model"),
        ({"picker_failure": "ajar"}, "pickerFailure.*closed, open"),
        ({"picker_replicas": 0}, "pickerReplicas.*1 to 5, got 0"),
        ({"router_replicas": 0}, "routerReplicas"),
        ({"requests_per_minute": 0}, "requestsPerMinute.*1 to 1000000, got 0"),
        (
            {"exposure": "internal", "subnetwork": "s", "requests_per_minute": 5},
            "requestsPerMinute.*must not be set",
        ),
        ({"log_percent": 101}, "logPercent.*0 to 100, got 101"),
        ({"port": 0}, "port.*1 to 65535, got 0"),
    ],
)
def test_a_gateway_that_cannot_be_is_refused(recorder, change, message):
    refused(recorder, {**args(), **change}, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool_name": "Llama"}, r"models\[0\]\.poolName"),
        ({"target_port": 70_000}, r"models\[0\]\.targetPort.*65535"),
        ({"timeout_seconds": 0}, r"models\[0\]\.timeoutSeconds.*1 to 3600, got 0"),
        ({"timeout_seconds": 3601}, r"models\[0\]\.timeoutSeconds"),
        ({"priority": -1}, r"models\[0\]\.priority"),
        ({"task": "rerank"}, r"models\[0\]\.task.*generate, embed"),
        ({"selector": {}}, r"models\[0\]\.selector"),
        ({"model_name": "two words"}, r"models\[0\]\.modelName.*'two words'"),
        ({"adapters": ["sql", "sql"]}, "own modelName, got 'sql' twice"),
    ],
)
def test_a_model_that_cannot_be_routed_is_refused(recorder, change, message):
    model: Any = {**LLAMA, **change}
    refused(recorder, args(model), message)


def test_two_models_do_not_share_a_name(recorder):
    refused(recorder, args(LLAMA, {**LLAMA, "pool_name": "other"}), "own modelName")


def test_two_models_do_not_share_a_pool(recorder):
    refused(recorder, args(LLAMA, {**EMBED, "pool_name": "llama-8b"}), "own poolName")
