"""What the machines that a stack always keeps would cost, committed for one or three years."""

from collections.abc import Mapping
from dataclasses import dataclass

from gke_inference.catalogue.platform_prices import UnitPrice, machine_price
from gke_inference.catalogue.prices import (
    COMMITTABLE,
    COMMITTED_YEARS,
    Price,
    committed_price,
    rung_price,
)
from infra.cost.nodes import system_nodes
from infra.plan import Plan
from infra.stack import Layer
from planner.amount import NOTHING, Amount, Missing, total, without_price
from planner.choice.cost import Bill, Line


@dataclass(frozen=True)
class Commitment:
    """Machines of one kind that always run in a region; dollars an hour."""

    what: str
    region: str
    count: int
    """Replicas, or nodes."""
    on_demand: Amount
    by_years: Mapping[int, Amount]

    @property
    def is_published(self) -> bool:
        """Whether all of its prices are published, so that they can be compared."""
        return not any(each.missing for each in (self.on_demand, *self.by_years.values()))


@dataclass(frozen=True)
class Commitments:
    """What of a stack's minimum commitments discount."""

    each: tuple[Commitment, ...]

    @property
    def on_demand(self) -> Amount:
        """Dollars an hour on demand of the machines whose commitments have prices."""
        return total(one.on_demand if one.is_published else NOTHING for one in self.each)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What has no published price, so that its machines are in none of the totals."""
        return total(
            amount for one in self.each for amount in (one.on_demand, *one.by_years.values())
        ).missing

    def committed(self, years: int) -> Amount:
        """Return dollars an hour of the same machines with a commitment."""
        return total(one.by_years[years] if one.is_published else NOTHING for one in self.each)


def commitments(plan: Plan, bill: Bill) -> Commitments:
    """Return what the machines of a stack's minimum cost on demand and committed.

    Spot and flex-start machines are no part of it, nor are disks, networks or buckets.

    Args:
        plan: Of the stack.
        bill: Of the same stack.
    """
    found: dict[tuple[str, str], Commitment] = {}
    for one in (*map(_of_line, bill.lines), *_of_system_nodes(plan)):
        if one is None or not one.count:
            continue
        key = (one.what, one.region)
        found[key] = one if key not in found else _together(found[key], one)
    return Commitments(tuple(found.values()))


def _of_line(line: Line) -> Commitment | None:
    served, first = line.served, line.first
    if not served.rungs:
        return None
    rung = next(
        (rung for rung in served.rungs if first and rung.label == first.rung), served.rungs[0]
    )
    if rung.provisioning not in COMMITTABLE:
        return None
    return _commitment(
        rung.label.removesuffix(f" {rung.provisioning}"),
        served.region,
        served.minimum,
        rung_price(rung, served.region),
        {years: committed_price(rung, served.region, years) for years in COMMITTED_YEARS},
    )


def _of_system_nodes(plan: Plan) -> list[Commitment]:
    found: list[Commitment] = []
    if plan.platform.layer is Layer.SERVING:
        return found  # the platform's
    for region in plan.regions.values():
        nodes = system_nodes(region, 1.0)
        if nodes is not None:
            machine = nodes.machine_type
            by_years = {
                years: machine_price(machine, region.name, years) for years in COMMITTED_YEARS
            }
            listed = machine_price(machine, region.name)
            least = int(nodes.count.minimum)
            found.append(_commitment(machine, region.name, least, listed, by_years))
    return found


def _commitment(
    what: str,
    region: str,
    count: int,
    listed: Price | UnitPrice | None,
    by_years: Mapping[int, Price | UnitPrice | None],
) -> Commitment:
    return Commitment(
        what,
        region,
        count,
        _amount(listed, what, region) * count,
        {
            years: _amount(price, f"commitments of {what}", region) * count
            for years, price in by_years.items()
        },
    )


def _amount(price: Price | UnitPrice | None, what: str, region: str) -> Amount:
    if price is None:
        return without_price(what, region)
    return Amount(price.usd_per_hour if isinstance(price, Price) else price.usd)


def _together(one: Commitment, other: Commitment) -> Commitment:
    return Commitment(
        one.what,
        one.region,
        one.count + other.count,
        one.on_demand + other.on_demand,
        {years: amount + other.by_years[years] for years, amount in one.by_years.items()},
    )
