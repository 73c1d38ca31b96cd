"""Costs of batches: the bucket. Service and workers run on the system nodes."""

from collections.abc import Iterator
from typing import Final

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.batches import batches_in
from infra.stack import Platform

_WHAT: Final = "Cloud Storage of batches, by what is kept and by operation"


def batch_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's batches, whose storage is not known in advance."""
    if batches_in(platform, region) is not None:
        yield part(CLUSTER, _WHAT, region, None, always(1), unit="buckets")
