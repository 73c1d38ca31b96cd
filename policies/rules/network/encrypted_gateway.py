"""Prompts cross the internet encrypted."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import PRODUCTION_CONFIG, at, entries, is_kubernetes
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    names = [str(each) for each in entries(config, "productionEnvironments")] or _PRODUCTION
    if resource.stack not in names or "external" not in str(
        at(resource.props, "spec", "gatewayClassName")
    ):
        return
    for index, listener in enumerate(entries(resource.props, "spec", "listeners")):
        protocol = at(listener, "protocol")
        if protocol not in ("HTTPS", "TLS"):
            yield broken(
                resource,
                f"spec.listeners[{index}].protocol",
                quoted(protocol),
                "must be HTTPS where it is external and of production",
            )


_PRODUCTION = ["prod", "production"]
RULE = ResourceRule(
    name="encrypted-gateway",
    description="External gateways of production listen with TLS only.",
    applies=is_kubernetes("Gateway"),
    check=_check,
    config=PRODUCTION_CONFIG,
    reference="Gateway API on GKE: secure a Gateway",
)
