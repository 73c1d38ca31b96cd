"""A row of an acceptance report: the promise of the stack, the measurement, and the verdict."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Verdict on a measurement."""

    MET = "met"
    NOT_MET = "not met"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Row:
    """One row."""

    subject: str
    """Kind of thing, such as `model`."""
    name: str
    """Name, with its region."""
    predicted: str
    measured: str
    """Measurement, or the reason why the row was not checked."""
    verdict: Verdict
    is_unseen: bool = False
    """Whether it was not checked because a request was refused or not answered."""

    @property
    def is_failure(self) -> bool:
        """Return whether the row prevents acceptance."""
        return self.verdict is Verdict.NOT_MET or self.is_unseen


@dataclass(frozen=True)
class Subject:
    """The subject of a row, before the measurement."""

    subject: str
    name: str
    predicted: str

    def met(self, measured: str) -> Row:
        """Return the row for a promise that is met."""
        return self.judged(measured, is_met=True)

    def not_met(self, measured: str) -> Row:
        """Return the row for a promise that is not met."""
        return self.judged(measured, is_met=False)

    def judged(self, measured: str, *, is_met: bool) -> Row:
        """Return the row for a promise, met or not met."""
        verdict = Verdict.MET if is_met else Verdict.NOT_MET
        return Row(self.subject, self.name, self.predicted, measured, verdict)

    def skipped(self, reason: str) -> Row:
        """Return the row for a check that this run skips or that the stack does not need."""
        return Row(self.subject, self.name, self.predicted, reason, Verdict.NOT_CHECKED)

    def unseen(self, reason: str) -> Row:
        """Return the row for a check that could not be seen."""
        return Row(
            self.subject, self.name, self.predicted, reason, Verdict.NOT_CHECKED, is_unseen=True
        )
