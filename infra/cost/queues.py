"""Costs of queue chips: nothing while no job runs, at most all chips."""

from collections.abc import Iterator

from gke_inference.catalogue.platform_prices import UnitPrice
from gke_inference.catalogue.prices import rung_price
from infra.cost.parts import CLUSTER, Count, Part, part
from infra.plan import RegionPlan


def queue_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the nodes of a region's queues, at the price of each capacity's first rung.

    Job hours are not known in advance, so the expected cost is zero.
    """
    for queue in region.queues:
        for flavor in queue.flavors:
            rung = next(iter(flavor.capacity.rungs.values()))
            found = rung_price(rung, region.name)
            price = None
            if found is not None:
                price = UnitPrice(
                    found.usd_per_hour, "hour", found.source, found.date, found.confidence
                )
            what = f"queue {queue.name}, {rung.label}, while jobs run"
            yield part(CLUSTER, what, region.name, price, Count(0, 0, flavor.nodes), unit="nodes")
