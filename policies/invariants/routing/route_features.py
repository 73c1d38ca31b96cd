"""Routes use only what GKE's gateways have."""

from collections.abc import Iterator

from gke_inference.catalogue.route_features import undeclared_features
from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for route in world.of("HTTPRoute"):
        for each in undeclared_features(route.body):
            yield broken(
                route,
                each.field,
                each.value,
                f"GKE's gateways do not declare the feature {each.feature}",
                f"remove {each.field.rpartition('.')[2]}",
            )


RULE = Invariant(
    name="route-features",
    description="Routes ask for no feature of the Gateway API that GKE does not declare.",
    reference="kubernetes-sigs/gateway-api, conformance/reports/v1.6/gke-gateway",
    check=_check,
)
