"""Services behind Google's load balancer have a health check and a timeout."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.backends import backends, by_gke, targeting
from policies.objects.world import World

_POLICIES = {
    "HealthCheckPolicy": "the default health check requests GET / on the serving port",
    "GCPBackendPolicy": "the default timeout of 30 s cuts off streams",
}


def _check(world: World) -> Iterator[Finding]:
    seen: set[str] = set()
    for each in backends(world):
        service = world.find("Service", each.namespace, each.name)
        if each.kind != "Service" or service is None or service.title in seen:
            continue
        seen.add(service.title)
        ours = by_gke(world, each.route)
        if ours is None:
            yield unknown(
                each.route,
                "spec.parentRefs",
                None,
                "the class of its Gateway was not read",
                "also check the Gateway",
            )
        elif ours:
            for kind, reason in _POLICIES.items():
                if not targeting(world, kind, service):
                    yield broken(
                        service,
                        kind,
                        None,
                        f"no {kind} targets it: {reason}",
                        f"add a {kind} with targetRef Service {service.name}",
                    )


RULE = Invariant(
    name="service-backends",
    description="Services behind a gke-l7 Gateway have a HealthCheckPolicy and a GCPBackendPolicy.",
    reference="gateway-api-inference-extension #1475; llm-d #2119; 504s in published guides",
    check=_check,
)
