"""Cost of reservations in calendar mode, which are paid for whether their VMs are used or not."""

from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.calendar_mode import Period
from gke_inference.catalogue.platform_prices import UnitPrice
from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rungs import Rung
from infra.estimate.cost_parts import ACCELERATORS, Part, part
from infra.plan import Plan
from planner.amount import Amount, Count, always
from planner.choice.cost import Bill, amount_of, share_of_month


@dataclass(frozen=True)
class Booking:
    """A reservation for a period that a stack requests."""

    rung: Rung
    region: str
    machines: int
    """VMs."""
    period: Period

    @property
    def name(self) -> str:
        """Name of the reservation."""
        return str(self.rung.reservation)

    @property
    def replicas(self) -> int:
        """Replicas that the VMs hold."""
        return self.machines // self.rung.hosts

    @property
    def whole(self) -> Amount:
        """Cost of the whole period in US dollars."""
        price = rung_price(self.rung, self.region, allow_partial=True)
        each = amount_of(price, self.rung.label, self.region)
        return each * (self.replicas * self.period.hours)


def bookings(plan: Plan) -> tuple[Booking, ...]:
    """Return the reservations that a stack requests."""
    return tuple(
        Booking(rung, region.name, rung.reservation_machines, rung.reservation_period)
        for region in plan.regions.values()
        for capacity in region.used_capacity
        for rung in capacity.reserved_rungs.values()
        if rung.reservation_machines is not None and rung.reservation_period is not None
    )


def idle_parts(plan: Plan, bill: Bill) -> Iterator[Part]:
    """Yield the reserved replicas beyond those of the bill, in a month with the reservation.

    Args:
        plan: The resolved stack.
        bill: Bill of the same stack, whose lines have the replicas that use a reservation.
    """
    for one in bookings(plan):
        price = rung_price(one.rung, one.region, allow_partial=True)
        if price is None:
            continue  # the line of its model names it
        used = sum((line.replicas for line in bill.lines if _uses(line.rung, one)), always(0))
        share = share_of_month(one.rung)
        idle = Count(
            max(0, one.replicas - used.minimum) * share,
            max(0, one.replicas - used.expected) * share,
            max(0, one.replicas - used.maximum) * share,
        )
        if idle.minimum:
            hourly = UnitPrice(
                price.usd_per_hour, "hour", price.source, price.date, price.confidence
            )
            what = f"reservation {one.name}, replicas that nobody uses"
            yield part(ACCELERATORS, what, one.region, hourly, idle, unit="replicas")


def _uses(rung: Rung | None, booking: Booking) -> bool:
    key = (booking.rung.reservation, booking.rung.reservation_zones)
    return rung is not None and (rung.reservation, rung.reservation_zones) == key
