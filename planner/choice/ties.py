"""Choices whose cost the intervals cannot tell apart, and what would tip the balance."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.choice.plan import Choice
from planner.choice.question import Estimate


@dataclass(frozen=True)
class Tie:
    """Choices that may cost as little as the first one."""

    numbers: tuple[int, ...]
    """Their numbers in the table, 1 among them."""
    rival: int
    """Number of the first one on another accelerator; 0 if there is none."""
    cheaper: float
    """Share by which its price must fall to cost as little as the first one."""


def tie(shown: Sequence[Choice]) -> Tie | None:
    """Return the choices whose interval of cost reaches that of the first one; None for no other.

    Choices must meet the targets and have a price.

    Args:
        shown: Choices in the order of the table.
    """
    first = shown[0] if shown else None
    if first is None or first.usd_per_hour is None or not first.keeps_promise:
        return None
    numbers = [
        number
        for number, one in enumerate(shown, 1)
        if one.keeps_promise
        and one.is_floor == first.is_floor
        and one.usd_per_hour is not None
        and _overlap(one.usd_per_hour, first.usd_per_hour)
    ]
    if len(numbers) < 2:
        return None
    word = first.candidate.form.word
    rival = next((number for number in numbers if shown[number - 1].candidate.form.word != word), 0)
    other = shown[rival - 1].usd_per_hour if rival else None
    cheaper = 0.0 if other is None else max(0.0, 1 - first.usd_per_hour.value / other.value)
    return Tie(tuple(numbers), rival, cheaper)


def _overlap(one: Estimate, other: Estimate) -> bool:
    return one.low <= other.high and other.low <= one.high
