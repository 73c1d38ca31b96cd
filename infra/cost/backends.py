"""Costs of backends: providers bill tokens, whose number is not known in advance."""

from collections.abc import Iterator

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.backends import has_backends
from infra.stack import Platform


def backend_parts(platform: Platform) -> Iterator[Part]:
    """Yield backend tokens as a part without a price, which no total includes."""
    if has_backends(platform):
        what, count = "Tokens of backends, charged by their providers", len(platform.backends)
        yield part(CLUSTER, what, "", None, always(count), unit="backends")
