"""Costs of streams: Pub/Sub throughput. Workers run on the system nodes."""

from collections.abc import Iterator
from typing import Final

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.streams import streams
from infra.stack import Platform

_WHAT: Final = "Pub/Sub, throughput beyond 10 GiB a month"


def stream_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's streams, whose throughput is not known in advance."""
    found = [each for each in streams(platform) if each.region == region and not each.is_kafka]
    if found:
        yield part(CLUSTER, _WHAT, region, None, always(len(found)), unit="streams")
