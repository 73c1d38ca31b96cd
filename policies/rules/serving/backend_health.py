"""The load balancer knows how to ask a model server whether it is well, and how long to wait."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, StackRule

_is_pool = is_kubernetes("InferencePool")
_is_check = is_kubernetes("HealthCheckPolicy")
_is_backend = is_kubernetes("GCPBackendPolicy")
_LOAD_BALANCER_SECONDS = 30


def _targets(policy: Resource, pool: Resource) -> bool:
    reference = section(policy.props, "spec", "targetRef")
    return (
        reference.get("kind") == "InferencePool"
        and reference.get("name") == at(pool.props, "metadata", "name")
        and at(policy.props, "metadata", "namespace") == at(pool.props, "metadata", "namespace")
    )


def _check(resources: list[Resource], _: Config) -> Iterator[Finding]:
    for pool in resources:
        if not _is_pool(pool):
            continue
        checks = [each for each in resources if _is_check(each) and _targets(each, pool)]
        if not checks:
            yield broken(pool, "HealthCheckPolicy", "none", "must target the pool")
        for check in checks:
            if at(check.props, "spec", "default", "timeoutSec") is None:
                yield broken(check, "spec.default.timeoutSec", quoted(None), "must be set")
        backends = [each for each in resources if _is_backend(each) and _targets(each, pool)]
        timeouts = [at(each.props, "spec", "default", "timeoutSec") for each in backends]
        if not any(isinstance(t, int | float) and t > _LOAD_BALANCER_SECONDS for t in timeouts):
            yield broken(
                pool,
                "GCPBackendPolicy",
                timeouts or "none",
                f"must give the pool a spec.default.timeoutSec over {_LOAD_BALANCER_SECONDS} s, "
                "or streams are cut",
            )


RULE = StackRule(
    name="backend-health",
    description="Every InferencePool has a health check and a time-out longer than a stream.",
    check=_check,
    reference="GKE Inference Gateway: health checks and time-outs",
    on_objects=OnObjects(
        subject="routing",
        fix="add a HealthCheckPolicy and a GCPBackendPolicy with timeoutSec for the pool",
        reference="gateway-api-inference-extension #1475; llm-d #2119",
    ),
)
