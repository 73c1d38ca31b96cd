"""What models that run elsewhere cost: providers charge for tokens, which nobody knows here."""

from collections.abc import Iterator

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.backends import has_backends
from infra.stack import Platform


def backend_parts(platform: Platform) -> Iterator[Part]:
    """Yield the tokens of backends as a part without a price: they are in no total."""
    if has_backends(platform):
        what, count = "Tokens of backends, charged by their providers", len(platform.backends)
        yield part(CLUSTER, what, "", None, always(count), unit="backends")
