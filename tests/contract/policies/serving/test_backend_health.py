"""What the load balancer knows of model servers."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.backend_health import STACK_RULE

POOL = "kubernetes:inference.networking.k8s.io/v1:InferencePool"
HEALTH = "kubernetes:networking.gke.io/v1:HealthCheckPolicy"
BACKEND = "kubernetes:networking.gke.io/v1:GCPBackendPolicy"
HERE = {"name": "llama", "namespace": "serving"}


def policy(timeout, kind="InferencePool", name="llama"):
    target = {"group": "inference.networking.k8s.io", "kind": kind, "name": name}
    default = {} if timeout is None else {"timeoutSec": timeout}
    return {"metadata": HERE, "spec": {"targetRef": target, "default": default}}


GOOD = [(POOL, {"metadata": HERE}), (HEALTH, policy(2)), (BACKEND, policy(600))]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (GOOD, None),
        ([GOOD[0], GOOD[2]], "HealthCheckPolicy: must target the pool"),
        ([GOOD[0], (HEALTH, policy(2, name="other")), GOOD[2]], "HealthCheckPolicy"),
        ([GOOD[0], (HEALTH, policy(2, kind="Service")), GOOD[2]], "HealthCheckPolicy"),
        ([GOOD[0], (HEALTH, policy(None)), GOOD[2]], "spec.default.timeoutSec"),
        ([GOOD[0], GOOD[1]], "GCPBackendPolicy"),
        ([GOOD[0], GOOD[1], (BACKEND, policy(30))], "GCPBackendPolicy"),
        ([GOOD[1], GOOD[2]], None),
        ([GOOD[0], GOOD[1], (BACKEND, policy(UNKNOWN))], "unknown"),
    ],
)
def test_backend_health_is_judged(judge_stack, check, resources, expected):
    check(judge_stack(STACK_RULE, *resources), expected)
