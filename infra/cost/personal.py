"""Costs of personalized images: bucket and service. The worker runs on the system nodes."""

from collections.abc import Iterator
from typing import Final

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.queue_places import queue_region
from infra.stack import Platform

_WHAT: Final = {
    "buckets": "Cloud Storage of personalized images, by what is kept and by operation",
    "services": "Cloud Run for personalized images, by request",
}


def personal_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region, whose use is not known in advance."""
    personal = platform.personal_images
    if personal is None or queue_region(platform, platform.queues[personal.queue]) != region:
        return
    for unit, what in _WHAT.items():
        yield part(CLUSTER, what, region, None, always(1), unit=unit)
