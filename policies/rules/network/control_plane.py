"""The control plane does not accept connections from arbitrary addresses."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, entries, is_type, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_ANYWHERE = frozenset(["0.0.0.0/0", "::/0"])


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    endpoints = section(resource.props, "controlPlaneEndpointsConfig")
    on_address = at(endpoints, "ipEndpointsConfig", "enabled")
    networks = section(resource.props, "masterAuthorizedNetworksConfig")
    if on_address is not False and not networks:
        yield broken(
            resource,
            "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled",
            quoted(on_address),
            "must be false, or masterAuthorizedNetworksConfig must list the allowed networks",
        )
    for index, block in enumerate(entries(networks, "cidrBlocks")):
        cidr = at(block, "cidrBlock")
        if cidr in _ANYWHERE:
            path = f"masterAuthorizedNetworksConfig.cidrBlocks[{index}].cidrBlock"
            yield broken(resource, path, quoted(cidr), "must not be the whole internet")


RULE = ResourceRule(
    name="control-plane-access",
    description="The control plane accepts only its DNS endpoint or authorized networks.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.6.3", "5.6.4"),
)
