"""A canary: a second version of a model under the same name, and the header that selects a version.

Both versions answer to the model's name and to its adapters' names. Requests are split between them
by weight, unless a request selects a version: a match of two headers is more specific than one of
the model's name alone, so the load balancer tries it first.
"""

from dataclasses import replace

from gke_inference.base.manifests import Manifest

from .routes import (
    MATCHES_PER_RULE,
    RoutedCanary,
    RoutedModel,
    call_matches,
    dealt,
    name_match,
    route_head,
    routes_of,
    rule_of,
)

VERSION_HEADER = "x-model-version"
STABLE = "stable"


def canary_model(model: RoutedModel, canary: RoutedCanary) -> RoutedModel:
    """Return the canary as a model, with its own pool, picker and objectives."""
    return replace(
        model,
        canary=None,
        engine=canary.engine or model.engine,
        pool_name=canary.pool_name,
        selector=canary.selector,
    )


def pinned_routes(
    model: RoutedModel,
    canary: RoutedCanary,
    namespace: str,
    gateway: str,
    hostname: str | None,
    gateway_namespace: str | None = None,
) -> list[Manifest]:
    """Return the HTTPRoutes for requests that select a version in `x-model-version`.

    The value is the canary's version or `stable`. Any other value, including the version of a
    removed canary, has no effect.
    """
    pools = {canary.version: canary.pool_name, STABLE: model.pool_name}
    rules: list[Manifest] = [
        rule_of([model.backend_ref(pool_name, 1)], matches)
        for version, pool_name in pools.items()
        for matches in dealt(_matches(model, version), MATCHES_PER_RULE)
    ]
    if model.grpc_port is not None:
        rules += [
            rule_of(
                [model.grpc_ref(pool_name, 1)], call_matches(model, **{VERSION_HEADER: version})
            )
            for version, pool_name in pools.items()
        ]
    head = route_head(gateway_namespace or namespace, gateway, hostname)
    return routes_of(f"{canary.pool_name}-pinned", namespace, head, rules)


def _matches(model: RoutedModel, version: str) -> list[Manifest]:
    """Return the matches of a version for every name and path of a model."""
    return [
        {**name_match(name, **{VERSION_HEADER: version}), "path": path}
        for name in model.served_names
        for path in model.paths
    ]
