"""Which regions the front of a platform leads to, for every model and for each alone.

A front cannot read the model out of a request's body, so whoever uses its plain URL must be able to
reach every model: only regions that serve all of them answer there. A model that some regions lack
has a path of its own as well, which all regions that serve it answer.
"""

from collections.abc import Iterable, Mapping

from infra.stack import Exposure, Front, Gateway, Layer, Platform


def has_internal_gateways(gateway: Gateway) -> bool:
    """Return whether only networks reach the gateways of the regions."""
    return gateway.exposure is Exposure.INTERNAL or gateway.front is Front.GLOBAL


def is_published(gateway: Gateway) -> bool:
    """Return whether Private Service Connect leads to the gateways of the regions."""
    return gateway.front is Front.GLOBAL or gateway.publish is not None


def with_gateway(platform: Platform) -> tuple[str, ...]:
    """Return the regions that have a gateway, in the order of the stack."""
    if platform.layer is not Layer.ALL:
        return tuple(platform.regions)
    return tuple(name for name in platform.regions if platform.models_in(name))


def in_front(platform: Platform) -> tuple[str, ...]:
    """Return the regions that take part in the front: all with a gateway but drained ones."""
    return tuple(name for name in with_gateway(platform) if name not in platform.gateway.drain)


def answering(platform: Platform) -> tuple[str, ...]:
    """Return the regions that the plain URL leads to: those that serve every model."""
    return _serving(platform, platform.models)


def paths_of_models(platform: Platform) -> Mapping[str, tuple[str, ...]]:
    """Return the regions of each model that some region of the front lacks, by its name."""
    everywhere = in_front(platform)
    regions = {name: _serving(platform, (name,)) for name in platform.models}
    return {name: found for name, found in regions.items() if found and found != everywhere}


def _serving(platform: Platform, models: Iterable[str]) -> tuple[str, ...]:
    wanted = set(models)
    return tuple(name for name in in_front(platform) if wanted <= set(platform.models_in(name)))
