"""Hardware for all models of a stack together, under a budget and quotas.

One offer is chosen for each requirement: a binary program, which HiGHS solves exactly. The only
free parameter is the share of the traffic on temporary nodes, Spot and flex-start: the frontier has
the cheapest portfolio for each share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import highspy

from planner.choice.question import Estimate

Key = tuple[str | None, str]
"""Region, or None for the project, and a quota."""
Spare = Mapping[tuple[Key, str], int]
"""Amounts by quota and region."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the traffic on temporary nodes for which the frontier is solved."""
_SLACK = 1e-6
_TIE = 1e-6
"""Weight of a burden, so small that it only decides between equal costs."""

What = TypeVar("What")


@dataclass(frozen=True)
class Offer(Generic[What]):
    """One way to serve a model in all of its regions."""

    what: What
    usd_per_hour: Estimate
    uses: Mapping[Key, int]
    """Quota that its rungs need, at most."""
    temporary: float
    """Share of its regions whose first rung is not always on: Spot or flex-start."""
    spare: Spare = field(default_factory=dict[tuple[Key, str], int])
    """Quota of the node that an upgrade adds in each region. Node pools are upgraded one after
    another, so a region needs the largest one of all offers, not their sum."""
    burden: float = 0.0
    """Which of several offers with equal cost is better: the one with the smallest."""


@dataclass(frozen=True)
class Requirement(Generic[What]):
    """A model with the offers to choose from."""

    name: str
    weight: float
    """Its part of the stack's traffic, in any unit."""
    offers: tuple[Offer[What], ...]


@dataclass(frozen=True)
class Rest:
    """What the parts of a stack that are not chosen cost and use."""

    usd_per_hour: float = 0.0
    uses: Mapping[Key, int] = field(default_factory=dict[Key, int])
    spare: Spare = field(default_factory=dict[tuple[Key, str], int])


_NOTHING = Rest()


@dataclass(frozen=True)
class Portfolio(Generic[What]):
    """One offer for each requirement."""

    chosen: Mapping[str, Offer[What]]
    temporary_share: float
    """Share of the traffic on Spot and flex-start."""
    rest: Rest = _NOTHING

    @property
    def usd_per_hour(self) -> Estimate:
        """Cost of all offers and the rest; the ends assume that all estimates err in one way."""
        every = [offer.usd_per_hour for offer in self.chosen.values()]
        fixed = self.rest.usd_per_hour
        return Estimate(
            fixed + sum(one.value for one in every),
            fixed + sum(one.low for one in every),
            fixed + sum(one.high for one in every),
        )

    @property
    def uses(self) -> dict[Key, int]:
        """Quota that all offers and the rest need together."""
        offers = self.chosen.values()
        return total_uses(
            [self.rest.uses, *(one.uses for one in offers)],
            [self.rest.spare, *(one.spare for one in offers)],
        )


def total_uses(uses: Iterable[Mapping[Key, int]], spare: Iterable[Spare]) -> dict[Key, int]:
    """Return the sum of uses, and in each region the largest spare node."""
    found: dict[Key, int] = {}
    for one in uses:
        for key, amount in one.items():
            found[key] = found.get(key, 0) + amount
    largest: dict[tuple[Key, str], int] = {}
    for one in spare:
        for place, amount in one.items():
            largest[place] = max(largest.get(place, 0), amount)
    for (key, _), amount in largest.items():
        found[key] = found.get(key, 0) + amount
    return found


def cheapest(
    requirements: Sequence[Requirement[What]],
    limits: Mapping[Key, int],
    most_temporary: float = 1.0,
    rest: Rest = _NOTHING,
) -> Portfolio[What] | None:
    """Return the cheapest portfolio, or None if no portfolio keeps the limits.

    Args:
        requirements: Models; each has at least one offer.
        limits: Most that may be used of each quota; quotas without a limit are missing.
        most_temporary: Largest share of the traffic on Spot and flex-start.
        rest: What else costs money and uses quota.
    """
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.0)
    columns = [
        [
            solver.addBinary(obj=offer.usd_per_hour.value + _TIE * offer.burden)
            for offer in requirement.offers
        ]
        for requirement in requirements
    ]
    for row in columns:
        solver.addConstr(solver.qsum(row) == 1)
    pairs = [
        (requirement, offer, column)
        for requirement, row in zip(requirements, columns, strict=True)
        for offer, column in zip(requirement.offers, row, strict=True)
    ]
    for key, most in limits.items():
        _keep_limit(solver, pairs, rest, key, most)
    whole = sum(requirement.weight for requirement in requirements)
    if whole:
        shares = [
            column * (requirement.weight * offer.temporary) for requirement, offer, column in pairs
        ]
        solver.addConstr(solver.qsum(shares) <= most_temporary * whole + _SLACK)
    solver.minimize()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = [float(value) for value in solver.getSolution().col_value]
    chosen = {
        requirement.name: offer
        for requirement, offer, column in pairs
        if values[int(column.index)] > 0.5
    }
    weights = {requirement.name: requirement.weight for requirement in requirements}
    temporary = sum(weights[name] * offer.temporary for name, offer in chosen.items())
    return Portfolio(chosen, temporary / whole if whole else 0.0, rest)


def _keep_limit(
    solver: Any,
    pairs: Sequence[tuple[Requirement[What], Offer[What], Any]],
    rest: Rest,
    key: Key,
    most: int,
) -> None:
    """Add the constraint of one quota; a variable is the largest spare node of a region."""
    terms = [column * offer.uses[key] for _, offer, column in pairs if offer.uses.get(key)]
    places = {place for _, offer, _ in pairs for place in offer.spare if place[0] == key}
    places |= {place for place in rest.spare if place[0] == key}
    for place in sorted(places, key=lambda one: one[1]):
        largest = solver.addVariable(lb=float(rest.spare.get(place, 0)))
        for _, offer, column in pairs:
            if offer.spare.get(place):
                solver.addConstr(largest - column * offer.spare[place] >= 0)
        terms.append(largest * 1.0)
    if terms:
        solver.addConstr(solver.qsum(terms) <= most - rest.uses.get(key, 0))


def frontier(
    requirements: Sequence[Requirement[What]], limits: Mapping[Key, int], rest: Rest = _NOTHING
) -> list[Portfolio[What]]:
    """Return the cheapest portfolio for each temporary share, without those that cost no less."""
    found: list[Portfolio[What]] = []
    for share in SHARES:
        one = cheapest(requirements, limits, share, rest)
        if one is None:
            continue
        if not found or one.usd_per_hour.value < found[-1].usd_per_hour.value - _SLACK:
            found.append(one)
    return found


def within(found: Sequence[Portfolio[What]], budget: float | None) -> Portfolio[What] | None:
    """Return the portfolio of a frontier with the smallest temporary share that a budget pays.

    Args:
        found: Frontier, with the smallest share first.
        budget: Dollars per hour; None for no limit.
    """
    return next((one for one in found if budget is None or one.usd_per_hour.value <= budget), None)
