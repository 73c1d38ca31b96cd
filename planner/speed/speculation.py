"""Speculative decoding: tokens that a step generates for a sequence, and what drafting them costs.

A draft proposes tokens one after the other. The next step verifies them together with the usual
token: it computes them all, and keeps those up to the first rejected one and one more.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

from planner.fit.tables import table

METHODS = ("eagle3", "mtp", "ngram")
"""Methods with a model of their cost. A separate draft model has none."""
MOST_TOKENS = 16


@dataclass(frozen=True)
class Speculation:
    """Draft tokens of a sequence and step, and how many tokens a step generates with them."""

    method: str
    tokens: int
    length: float
    """Expected tokens of a step and sequence, at least 1."""
    low: float
    high: float
    chances: tuple[float, ...]
    """Chance that each draft token is accepted, with all those before it."""
    source: str

    @property
    def has_passes(self) -> bool:
        """Whether each draft token takes a pass through a layer on the accelerator."""
        return self.method != "ngram"

    @property
    def doubt(self) -> float:
        """Factor up and down that the length adds to an interval."""
        return max(self.high / self.length, self.length / self.low)


def speculation(method: str, tokens: int, model: str) -> Speculation:
    """Return what speculation with a method does for a model, by its name in the table of models.

    Raises:
        ValueError: The method has no model, or the number of tokens is out of range.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"tokens must be 1 to {MOST_TOKENS}, got {tokens}")
    facts = table("speculation")
    low, middle, high, source = _first_chances(facts, method, model)
    decline = facts["assumed"]["decline"]
    kept = _kept(middle, tokens, decline)
    lengths = [1 + sum(_kept(chance, tokens, decline)) for chance in (low, middle, high)]
    return Speculation(method, tokens, lengths[1], lengths[0], lengths[2], kept, source)


def _first_chances(
    facts: dict[str, Any], method: str, model: str
) -> tuple[float, float, float, str]:
    """Return the chance of the first draft token (low, middle, high), and where it is from."""
    rows = [row for row in facts["measured"] if row["method"] == method]
    own = [row for row in rows if row["model"] == model]
    decline = facts["assumed"]["decline"]
    if own:
        found = sorted(first_chance(row["length"], row["tokens"], decline) for row in own)
        return found[0], median(found), found[-1], f"{len(own)} published lengths of {model}"
    low, middle, high = facts["assumed"]["chances"][method]
    return low, middle, high, "assumed: no length is published for this model"


def _kept(chance: float, tokens: int, decline: float) -> tuple[float, ...]:
    """Return the chance of each draft token to be accepted with all those before it."""
    found: list[float] = []
    kept = 1.0
    for place in range(tokens):
        kept *= chance * decline**place
        found.append(kept)
    return tuple(found)


def first_chance(length: float, tokens: int, decline: float) -> float:
    """Return the chance of the first draft token that gives an expected length."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if 1 + sum(_kept(middle, tokens, decline)) < length else (low, middle)
        )
    return (low + high) / 2


def head_billion(hidden: int) -> float:
    """Return the parameters of the logits of a draft pass, in billions."""
    return table("speculation")["assumed"]["head_vocabulary"] * hidden / 1e9


def pass_seconds() -> float:
    """Return the time of a draft pass that computing and reading do not explain."""
    return float(table("speculation")["assumed"]["pass_seconds"])
