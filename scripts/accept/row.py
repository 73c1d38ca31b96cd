"""One row of an acceptance report: what the stack promises, what was measured, and the verdict."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a measurement stands to its prediction."""

    MET = "met"
    NOT_MET = "not met"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Row:
    """One row."""

    subject: str
    """Kind of thing, such as `model`."""
    name: str
    """Which one, with its region."""
    predicted: str
    measured: str
    """What was measured; of a row that was not checked, the reason."""
    verdict: Verdict
    is_unseen: bool = False
    """Whether it was not checked because an answer was refused or did not come."""

    @property
    def is_failure(self) -> bool:
        """Return whether the platform may not be accepted because of it."""
        return self.verdict is Verdict.NOT_MET or self.is_unseen


@dataclass(frozen=True)
class Subject:
    """What a row is about, before anything is measured."""

    subject: str
    name: str
    predicted: str

    def met(self, measured: str) -> Row:
        """Return the row of a promise that is kept."""
        return self.judged(measured, is_met=True)

    def not_met(self, measured: str) -> Row:
        """Return the row of a promise that is broken."""
        return self.judged(measured, is_met=False)

    def judged(self, measured: str, *, is_met: bool) -> Row:
        """Return the row of a promise that is kept or broken."""
        verdict = Verdict.MET if is_met else Verdict.NOT_MET
        return Row(self.subject, self.name, self.predicted, measured, verdict)

    def skipped(self, reason: str) -> Row:
        """Return the row of what this run leaves out, or the stack does not have."""
        return Row(self.subject, self.name, self.predicted, reason, Verdict.NOT_CHECKED)

    def unseen(self, reason: str) -> Row:
        """Return the row of what could not be looked at."""
        return Row(
            self.subject, self.name, self.predicted, reason, Verdict.NOT_CHECKED, is_unseen=True
        )
