"""Production has a budget that tells people."""

import pytest

from policies.rules.cost.production_budget import STACK_RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
BUDGET = "gcp:billing/budget:Budget"
CLUSTER = "gcp:container/cluster:Cluster"
SHARES = {"thresholdRules": [{"thresholdPercent": 0.5}]}
PROD = {"resourceLabels": {"env": "prod"}}


@pytest.mark.parametrize(
    ("resources", "stack", "expected"),
    [
        ([(CLUSTER, PROD), (BUDGET, SHARES)], "dev", None),
        ([(CLUSTER, {}), (BUDGET, SHARES)], "prod", None),
        ([(CLUSTER, PROD)], "dev", "Budget: must be in a stack of production, got none"),
        ([(CLUSTER, {}), (CLUSTER, {})], "prod", "must be in a stack of production"),
        ([(CLUSTER, {"resourceLabels": {"env": "staging"}})], "dev", None),
        ([(CLUSTER, PROD), (BUDGET, {})], "dev", "thresholdRules: must have a share"),
        ([(BUDGET, {"thresholdRules": UNKNOWN})], "prod", "unknown"),
        ([], "prod", None),
    ],
)
def test_production_budget_is_judged(judge_stack, check, resources, stack, expected):
    check(judge_stack(STACK_RULE, *resources, stack=stack), expected)
