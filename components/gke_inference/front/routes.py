"""How a global load balancer leads requests to regions: URL maps, and when a region is left out."""

from collections.abc import Mapping

import pulumi
from pulumi_gcp import compute

PATH_OF_MODELS = "/models/"
"""Before the name of a model, in the path that only its own regions answer."""

OUTLIER_DETECTION: "compute.BackendServiceOutlierDetectionArgsDict" = {
    "base_ejection_time": {"seconds": 30},
    # 502, 503, 504 and failed connections; the 500 of one engine is no sign of a lost region
    "consecutive_gateway_failure": 5,
    "enforcing_consecutive_errors": 0,
    "enforcing_consecutive_gateway_failure": 100,
    "enforcing_success_rate": 0,
    "interval": {"seconds": 1},
    "max_ejection_percent": 50,
}
"""A region that fails is left out for a while: backends of Private Service Connect have no health
checks (docs.cloud.google.com/vpc/docs/access-apis-managed-services-backends)."""

_TRIES = 2
_UNANSWERED = ("connect-failure", "refused-stream")
"""What is tried again: an answer that was begun must not be generated twice."""


def path_matcher(
    backend: pulumi.Input[str], models: Mapping[str, pulumi.Input[str]]
) -> "compute.URLMapPathMatcherArgsDict":
    """Returns the matcher of every host: regions tell their hosts apart.

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
