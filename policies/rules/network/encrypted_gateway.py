"""Prompts are encrypted on the internet."""

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
                "must be HTTPS on an external production gateway",
            )


_PRODUCTION = ["prod", "production"]
RULE = ResourceRule(
    name="encrypted-gateway",
    description="In production, external gateways serve only HTTPS.",
    applies=is_kubernetes("Gateway"),
    check=_check,
    config=PRODUCTION_CONFIG,
    reference="Gateway API on GKE: secure a Gateway",
)
