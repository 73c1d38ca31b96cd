"""A Service behind Google's load balancer has a health check and a time-out of its own."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.backends import backends, by_gke, targeting
from policies.objects.world import World

_POLICIES = {
    "HealthCheckPolicy": "the default check asks for GET / on the serving port",
    "GCPBackendPolicy": "the default time-out of 30 s cuts streams",
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
                "check the Gateway, too",
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
    description="Services behind a gke-l7 gateway have a HealthCheckPolicy and a GCPBackendPolicy.",
    reference="gateway-api-inference-extension #1475; llm-d #2119; 504s in published guides",
    check=_check,
)
