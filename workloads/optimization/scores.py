"""Result of an evaluation: scores of two models, and whether one is worse. No library is needed."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

FOLDER: Final = "evaluations"
"""Folder of the bucket with the results: `evaluations/NAME/TIME.json`, of which none changes."""


class ResultError(ValueError):
    """A result that cannot be read; the message has field, rule and value."""


@dataclass(frozen=True)
class Score:
    """Score of both models in one task."""

    task: str
    metric: str
    """METRIC,FILTER as the harness names it."""
    candidate: float
    baseline: float
    higher_is_better: bool
    error: float | None
    """Standard error of the candidate's score, or None if the harness has none."""
    questions: int
    """Questions that both answered."""

    @property
    def loss(self) -> float:
        """By how much the candidate is worse; negative if it is better."""
        difference = self.baseline - self.candidate
        return difference if self.higher_is_better else -difference


@dataclass(frozen=True)
class Side:
    """A model as it was evaluated."""

    model: str
    """Name in requests."""
    version: str
    """Value of x-model-version; empty for none."""
    weights: str
    """FOLDER@VERSION, or FOLDER if its weights have no version."""


@dataclass(frozen=True)
class Result:
    """What an evaluation found."""

    name: str
    time: str
    """End of the evaluation, RFC 3339."""
    candidate: Side
    baseline: Side
    scores: tuple[Score, ...]

    def lost(self, tolerance: float) -> Iterator[Score]:
        """Yield the scores by which the candidate is worse by more than a tolerance."""
        for score in self.scores:
            if score.loss > tolerance + 1e-9:  # 0.9 - 0.8 is more than 0.1 in binary
                yield score

    def dump(self) -> str:
        """Return the result as JSON."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str) -> "Result":
        """Return the result in a text.

        Raises:
            ResultError: It is none.
        """
        try:
            content: Any = json.loads(text)
            found = cls(
                name=content["name"],
                time=content["time"],
                candidate=Side(**content["candidate"]),
                baseline=Side(**content["baseline"]),
                scores=tuple(Score(**each) for each in content["scores"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ResultError(f"must be the result of an evaluation, got {error}") from None
        if not found.scores:
            raise ResultError("scores: must have at least one, got none")
        return found


def prefix_of(name: str) -> str:
    """Return what the names of an evaluation's results begin with."""
    return f"{FOLDER}/{name}/"


def object_of(name: str, time: str) -> str:
    """Return the object of a result. The names of later results are greater."""
    return f"{prefix_of(name)}{time}.json"
