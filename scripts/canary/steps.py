"""The steps of a canary: raise its share, compare, and continue or roll back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scripts.canary.comparison import Finding, Rule, Share, compare


class Outcome(StrEnum):
    """Outcome of a run."""

    PASSED = "passed"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True)
class Measurements:
    """Measurements of both versions since a step began."""

    measures: dict[str, tuple[Share, Share]]
    """Shares of the canary and of the stable version, by description of the measure."""
    not_comparable: dict[str, str] = field(default_factory=dict[str, str])
    """Reasons for missing measures, by description of the measure."""


class NotMeasurable(Exception):
    """Nothing can be counted now; the message has the reason."""


class Measuring(Protocol):
    """Counts requests of both versions. Both methods raise `NotMeasurable`."""

    def begin(self) -> None:
        """Count from now on."""
        ...

    def look(self) -> Measurements:
        """Return the counts since `begin`."""
        ...


@dataclass(frozen=True)
class Settings:
    """Settings of a canary run."""

    steps: tuple[int, ...]
    """Ascending shares, in percent."""
    hold_seconds: float
    """Minimum time at a step."""
    patience_seconds: float
    """Maximum time at a step until there are enough requests."""
    look_seconds: float
    """Time between two comparisons."""
    rule: Rule

    @property
    def looks(self) -> int:
        """Maximum number of comparisons at a step."""
        return max(1, round(self.patience_seconds / self.look_seconds))

    def rule_of(self, measures: int) -> Rule:
        """Return the rule for one comparison.

        All comparisons of a run share `alpha` (Bonferroni): times, steps and measures.
        """
        alpha = self.rule.alpha / (self.looks * len(self.steps) * max(1, measures))
        return Rule(alpha, self.rule.margin_percent, self.rule.least_requests)


class Canary:
    """One run over the steps."""

    def __init__(
        self,
        settings: Settings,
        measuring: Measuring,
        set_percent: Callable[[int], None],
        *,
        sleep: Callable[[float], None],
        tell: Callable[[str], None],
    ) -> None:
        """Take the settings and the functions of the run.

        Args:
            settings: Settings of the run.
            measuring: Counter of requests.
            set_percent: Function that sets the share and returns when the gateway applies it.
            sleep: Function that waits for some seconds.
            tell: Function that shows a line of progress.
        """
        self._settings, self._measuring = settings, measuring
        self._set_percent, self._sleep, self._tell = set_percent, sleep, tell
        self._stable: dict[str, Share] = {}
        self.share: int | None = None
        """Share that the gateway applies, in percent; None before the first step."""
        self.tried: int | None = None
        """Share that was last requested; differs if setting it failed or is in progress."""

    def run(self) -> Outcome:
        """Run the steps; set the share to 0 if the canary is worse at one of them."""
        for percent in self._settings.steps:
            self._tell(f"{percent}%: deploying")
            self._set(percent)
            why = self._hold(percent)
            if why:
                self._tell(f"{percent}%: {why}; rolling back")
                self._set(0)
                self._tell("0%: rolled back")
                return Outcome.ROLLED_BACK
            self._tell(f"{percent}%: not worse")
        return Outcome.PASSED

    def _set(self, percent: int) -> None:
        self.tried = percent
        self._set_percent(percent)
        self.share = percent

    def _hold(self, percent: int) -> str:
        """Compare until a step is decided; return the reason for a rollback, or nothing."""
        settings, waited = self._settings, 0.0
        is_begun, measurements = False, Measurements({})
        while waited < settings.patience_seconds:
            try:
                if not is_begun:
                    self._measuring.begin()
                    is_begun = True
                self._sleep(settings.look_seconds)
                waited += settings.look_seconds
                measurements = self._measuring.look()
            except NotMeasurable as error:
                self._tell(f"{percent}%: cannot see: {error}")
                if not is_begun:
                    self._sleep(settings.look_seconds)
                    waited += settings.look_seconds
                continue
            found = self._judge(measurements)
            self._tell(f"{percent}%: {_words(measurements)} after {waited:.0f} s")
            worse = [name for name, finding in found.items() if finding is Finding.WORSE]
            if worse:
                return f"worse: {', '.join(worse)}"
            is_enough = bool(found) and Finding.TOO_FEW not in found.values()
            if is_enough and waited >= settings.hold_seconds:
                self._keep(measurements)
                return ""
        least = settings.rule.least_requests
        return f"fewer than {least} requests to compare in {waited:.0f} s: {_words(measurements)}"

    def _judge(self, measurements: Measurements) -> dict[str, Finding]:
        """Compare by measure; with few stable requests, use those of an earlier step."""
        rule = self._settings.rule_of(len(measurements.measures))
        return {
            name: compare(canary, self._stable_of(name, stable), rule)
            for name, (canary, stable) in measurements.measures.items()
        }

    def _stable_of(self, name: str, now: Share) -> Share:
        before = self._stable.get(name, Share(0, 0))
        is_enough = now.total >= min(self._settings.rule.least_requests, before.total)
        return now if is_enough else before

    def _keep(self, measurements: Measurements) -> None:
        for name, (_, stable) in measurements.measures.items():
            self._stable[name] = self._stable_of(name, stable)


def _words(measurements: Measurements) -> str:
    compared = [
        f"{name} {canary.bad}/{canary.total} (stable {stable.bad}/{stable.total})"
        for name, (canary, stable) in measurements.measures.items()
    ]
    others = [f"{name} not comparable: {why}" for name, why in measurements.not_comparable.items()]
    return ", ".join([*compared, *others])


def check_steps(steps: Sequence[int]) -> str:
    """Return the problem with the shares of a run, if any."""
    if not steps:
        return "must have one step or more"
    if any(not 1 <= step <= 100 for step in steps):
        return "must be percentages from 1 to 100"
    if list(steps) != sorted(set(steps)):
        return "must rise from step to step"
    if steps[0] == 100:
        return "must begin below 100: at 100 the stable version has no requests to compare with"
    return ""
