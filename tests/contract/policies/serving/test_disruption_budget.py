"""Upgrades of model servers."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.disruption_budget import STACK_RULE

SERVER = "kubernetes:apps/v1:Deployment"
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"


def server(labels, chips="google.com/tpu", namespace="serving"):
    container = {"resources": {"limits": {chips: "4"}}}
    return {
        "metadata": {"namespace": namespace},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    }


def budget(labels, namespace="serving"):
    return {
        "metadata": {"namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}},
    }


LABELS = {"model": "llama", "hardware": "tpu"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([(SERVER, server(LABELS)), (BUDGET, budget({"model": "llama"}))], None),
        ([(SERVER, server(LABELS)), (BUDGET, budget({"model": "other"}))], "PodDisruptionBudget"),
        ([(SERVER, server(LABELS)), (BUDGET, budget(LABELS, "elsewhere"))], "PodDisruptionBudget"),
        ([(SERVER, server(LABELS)), (BUDGET, budget({}))], "PodDisruptionBudget"),
        ([(SERVER, server(LABELS))], "PodDisruptionBudget"),
        ([(SERVER, server(LABELS, chips="cpu"))], None),
        ([], None),
        ([(SERVER, {})], "unknown"),
        ([(SERVER, server(LABELS)), (BUDGET, budget(UNKNOWN))], "unknown"),
    ],
)
def test_disruption_budget_is_judged(judge_stack, check, resources, expected):
    check(judge_stack(STACK_RULE, *resources), expected)


def test_inputs_are_judged_where_a_preview_has_no_outputs(judge_stack):
    props = server(LABELS)
    seen = {"urn:pulumi:dev::gke-inference::kubernetes:apps/v1:Deployment::it": props}
    verdict = judge_stack(STACK_RULE, (SERVER, {}), seen=seen)
    assert "PodDisruptionBudget" in verdict[0]
