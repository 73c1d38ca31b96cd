"""Routing of a global load balancer to regions: URL maps and outlier detection."""

from collections.abc import Mapping

import pulumi
from pulumi_gcp import compute

PATH_OF_MODELS = "/models/"
"""Path prefix before a model's name that only the model's regions answer."""

_FAILURES = 20
"""Failures in a row after which a region is left out. If half of the requests fail, as many follow
each other once in 2,097,150 requests on average (2^21 - 2); ten would once in 2,046."""
OUTLIER_DETECTION: "compute.BackendServiceOutlierDetectionArgsDict" = {
    "base_ejection_time": {"seconds": 30},
    # Any 5xx. A broken engine answers 500, and a model without a free replica 503, between the
    # answers of others: that must not take the whole region away and its load to the next one. A
    # gateway whose router or gate is away answers nothing else.
    "consecutive_errors": _FAILURES,
    # 502, 503, 504 and failed connections
    "consecutive_gateway_failure": _FAILURES,
    "enforcing_consecutive_errors": 100,
    "enforcing_consecutive_gateway_failure": 100,
    "enforcing_success_rate": 0,
    "interval": {"seconds": 1},
    "max_ejection_percent": 50,
}
"""Temporarily excludes a failing region, since Private Service Connect backends have no health
checks (docs.cloud.google.com/vpc/docs/access-apis-managed-services-backends)."""

_TRIES = 2
_UNANSWERED = ("connect-failure", "refused-stream")
"""Retry conditions: an answer that has started must not be generated twice."""


def path_matcher(
    backend: pulumi.Input[str], models: Mapping[str, pulumi.Input[str]]
) -> "compute.URLMapPathMatcherArgsDict":
    """Return the path matcher for every host. Regions distinguish their hosts themselves.

    Args:
        backend: Backend service of the plain URL.
        models: Backend service of each model with a path of its own, by the model's name.
    """
    rules: list[compute.URLMapPathMatcherRouteRuleArgsDict] = [
        {
            "match_rules": [{"prefix_match": f"{PATH_OF_MODELS}{name}/"}],
            "priority": at,
            "route_action": {
                "retry_policy": {"num_retries": _TRIES, "retry_conditions": list(_UNANSWERED)},
                "url_rewrite": {"path_prefix_rewrite": "/"},
            },
            "service": own,
        }
        for at, (name, own) in enumerate(sorted(models.items()), 1)
    ]
    return {
        "default_route_action": {
            "retry_policy": {"num_retries": _TRIES, "retry_conditions": list(_UNANSWERED)}
        },
        "default_service": backend,
        "name": "models",
        "route_rules": rules,
    }
