"""The cheapest hardware whose nodes stay, by region, and cheaper hardware that is no floor."""

from dataclasses import dataclass

from planner.choice.plan import Choice, Plan


@dataclass(frozen=True)
class Temporary:
    """A choice that costs less than the first floor, and whose shape is no floor."""

    choice: Choice
    is_sold: bool
    """Whether nodes of this shape that stay are sold, for a price that is not known."""


@dataclass(frozen=True)
class Floors:
    """What can be bought and kept."""

    regions: tuple[tuple[str, Choice | None], ...]
    """Each region asked for, with the cheapest choice whose nodes stay; None for no such choice."""
    temporary: tuple[Temporary, ...]
    """The cheapest of each accelerator; such replicas can be above a floor."""


def floors(answer: Plan) -> Floors:
    """Return the floors of a plan. All choices have a price and meet the targets."""
    good = [one for one in answer.choices if one.keeps_promise and one.usd_per_hour is not None]
    staying = [one for one in good if one.is_floor]
    regions = tuple(
        (region, next((one for one in staying if one.region == region), None))
        for region in answer.question.regions
    )
    if not staying:
        return Floors(regions, ())
    priced = {_shape(one) for one in staying}
    sold = {_shape(one) for one in answer.choices if one.is_floor}
    found: dict[str, Temporary] = {}
    for one in good:
        if _shape(one) not in priced and _usd(one) < _usd(staying[0]):
            found.setdefault(one.candidate.form.word, Temporary(one, _shape(one) in sold))
    return Floors(regions, tuple(found.values()))


def _shape(one: Choice) -> tuple[str, str]:
    return one.candidate.form.word, one.candidate.form.machine_type


def _usd(one: Choice) -> float:
    return one.usd_per_hour.value if one.usd_per_hour else float("inf")
