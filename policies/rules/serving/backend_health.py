"""The load balancer has a health check and a timeout for each pool."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted, unknown
from policies.framework.reading import at, is_kubernetes, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, StackRule

_is_pool = is_kubernetes("InferencePool")
_is_check = is_kubernetes("HealthCheckPolicy")
_is_backend = is_kubernetes("GCPBackendPolicy")
_LOAD_BALANCER_SECONDS = 30
_EXPORT = "networking.gke.io/export"
_IMPORT = "GCPInferencePoolImport"


def _is_exported(pool: Resource) -> bool:
    return section(pool.props, "metadata", "annotations").get(_EXPORT) == "True"


def _targets(policy: Resource, pool: Resource) -> bool:
    reference = section(policy.props, "spec", "targetRef")
    kind = _IMPORT if _is_exported(pool) else "InferencePool"
    return (
        reference.get("kind") == kind
        and reference.get("name") == at(pool.props, "metadata", "name")
        and at(policy.props, "metadata", "namespace") == at(pool.props, "metadata", "namespace")
    )


def _check(resources: list[Resource], _: Config) -> Iterator[Finding]:
    for pool in resources:
        if not _is_pool(pool):
            continue
        checks = [each for each in resources if _is_check(each) and _targets(each, pool)]
        if not checks and _is_exported(pool):
            note = f"no policy of a {_IMPORT} was read: they are in the config cluster"
            yield unknown(pool, "HealthCheckPolicy", None, note, "also check the config cluster")
            continue
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
    description="Every InferencePool has a health check and a timeout longer than a stream.",
    check=_check,
    reference="GKE Inference Gateway: health checks and timeouts",
    on_objects=OnObjects(
        subject="routing",
        fix="add a HealthCheckPolicy and a GCPBackendPolicy with timeoutSec for the pool",
        reference="gateway-api-inference-extension #1475; llm-d #2119",
    ),
)
