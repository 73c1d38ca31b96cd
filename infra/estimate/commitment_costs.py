"""Costs of a stack's minimum with committed use discounts.

The minimum excludes Spot and flex-start VMs, disks, networks and buckets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.platform_prices import UnitPrice, machine_price
from gke_inference.catalogue.prices import (
    COMMITTABLE,
    COMMITTED_YEARS,
    Price,
    committed_price,
    rung_price,
)
from infra.plan import Plan, RegionPlan
from planner.amount import NOTHING, Amount, Missing, priced, total, without_price
from planner.choice.cost import Bill, Line


@dataclass(frozen=True)
class Commitment:
    """Always-on VMs of one kind in a region, with costs in US dollars per hour."""

    what: str
    region: str
    count: int
    """Number of replicas or nodes."""
    on_demand: Amount
    by_years: Mapping[int, Amount]

    @property
    def is_published(self) -> bool:
        """Whether all of its prices are published, which a comparison needs."""
        return not any(each.missing for each in (self.on_demand, *self.by_years.values()))


@dataclass(frozen=True)
class Commitments:
    """Commitment discounts on a stack's minimum."""

    each: tuple[Commitment, ...]

    @property
    def on_demand(self) -> Amount:
        """On-demand cost in US dollars per hour of the VMs with published commitment prices."""
        return total(one.on_demand if one.is_published else NOTHING for one in self.each)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Items without a published price, excluded from all totals."""
        return self.every.missing

    @property
    def every(self) -> Amount:
        """All amounts together, for the items that they exclude and their unverified prices."""
        return total(
            amount for one in self.each for amount in (one.on_demand, *one.by_years.values())
        )

    def committed(self, years: int) -> Amount:
        """Return the cost in US dollars per hour of the same VMs with a commitment."""
        return total(one.by_years[years] if one.is_published else NOTHING for one in self.each)


def commitments(plan: Plan, bill: Bill) -> Commitments:
    """Return the costs of a stack's minimum VMs, on demand and committed.

    Args:
        plan: The resolved stack.
        bill: Bill of the same stack.
    """
    found: dict[tuple[str, str], Commitment] = {}
    for one in (*map(_of_line, bill.lines), *_of_system_nodes(plan.regions.values())):
        if one is None or not one.count:
            continue
        key = (one.what, one.region)
        found[key] = one if key not in found else _joined(found[key], one)
    return Commitments(tuple(found.values()))


def _of_line(line: Line) -> Commitment | None:
    served, rung = line.served, line.rung
    if rung is None or rung.provisioning not in COMMITTABLE:
        return None
    return _commitment(
        rung.label.removesuffix(f" {rung.provisioning}"),
        served.region,
        served.replicas.min,
        rung_price(rung, served.region),
        {years: committed_price(rung, served.region, years) for years in COMMITTED_YEARS},
    )


def _of_system_nodes(regions: Iterable[RegionPlan]) -> list[Commitment]:
    found: list[Commitment] = []
    for region in regions:
        nodes = region.system_nodes
        if nodes is not None:
            machine = nodes.machine_type
            by_years = {
                years: machine_price(machine, region.name, years) for years in COMMITTED_YEARS
            }
            listed = machine_price(machine, region.name)
            found.append(_commitment(machine, region.name, nodes.minimum, listed, by_years))
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
        _committed_amount(listed, what, region) * count,
        {
            years: _committed_amount(price, f"commitments of {what}", region) * count
            for years, price in by_years.items()
        },
    )


def _committed_amount(price: Price | UnitPrice | None, what: str, region: str) -> Amount:
    if price is None:
        return without_price(what, region)
    usd = price.usd_per_hour if isinstance(price, Price) else price.usd
    return priced(usd, what, region, is_verified=price.is_verified)


def _joined(one: Commitment, other: Commitment) -> Commitment:
    return Commitment(
        one.what,
        one.region,
        one.count + other.count,
        one.on_demand + other.on_demand,
        {years: amount + other.by_years[years] for years, amount in one.by_years.items()},
    )
