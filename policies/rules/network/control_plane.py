"""The control plane does not take connections from any address."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, entries, is_type, section
from policies.rule import Config, Resource, Rule

_ANYWHERE = frozenset(["0.0.0.0/0", "::/0"])


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    endpoints = section(resource.props, "controlPlaneEndpointsConfig")
    on_address = at(endpoints, "ipEndpointsConfig", "enabled")
    networks = section(resource.props, "masterAuthorizedNetworksConfig")
    if on_address is not False and not networks:
        yield (
            "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled: must be false, or "
            f"masterAuthorizedNetworksConfig must name who may connect, got {on_address!r}"
        )
    for index, block in enumerate(entries(networks, "cidrBlocks")):
        cidr = at(block, "cidrBlock")
        if cidr in _ANYWHERE:
            path = f"masterAuthorizedNetworksConfig.cidrBlocks[{index}].cidrBlock"
            yield f"{path}: must not be the whole internet, got {cidr!r}"


RULE = Rule(
    name="control-plane-access",
    description="The control plane is reached by its DNS endpoint and IAM, or from named networks.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.6.3, 5.6.4 (control plane)",
)
