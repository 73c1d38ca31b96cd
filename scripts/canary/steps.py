"""The steps of a canary: raise its share, look, and go on or roll back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scripts.canary.comparison import Finding, Rule, Share, compare


class Outcome(StrEnum):
    """How a run ended."""

    PASSED = "passed"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True)
class Sight:
    """What both versions did since a step began, by measure."""

    measures: dict[str, tuple[Share, Share]]
    """Shares of the canary and of the stable version, by what is bad in words."""
    not_comparable: dict[str, str] = field(default_factory=dict[str, str])
    """Why something is not measured, by what is bad in words."""


class NoSight(Exception):
    """Nothing can be counted now; the message says why."""


class Measuring(Protocol):
    """Counts requests of both versions. Both methods raise `NoSight`."""

    def begin(self) -> None:
        """Count from now on."""
        ...

    def look(self) -> Sight:
        """Return what was counted since `begin`."""
        ...


@dataclass(frozen=True)
class Settings:
    """How a canary is tried."""

    steps: tuple[int, ...]
    """Shares in percent, rising."""
    hold_seconds: float
    """Least time at a step."""
    patience_seconds: float
    """Longest time at a step until there are enough requests."""
    look_seconds: float
    """Time between two looks."""
    rule: Rule

    @property
    def looks(self) -> int:
        """How many looks a step has at most."""
        return max(1, round(self.patience_seconds / self.look_seconds))

    def rule_of(self, measures: int) -> Rule:
        """Return the rule of one comparison at one look.

        `alpha` is shared by all comparisons of a run (Bonferroni): looks, steps and measures.
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
        """Take what the run works with.

        Args:
            settings: How the canary is tried.
            measuring: Counts requests.
            set_percent: Gives the canary a share, and returns when the gateway deals by it.
            sleep: Waits for some seconds.
            tell: Shows progress, a line a call.
        """
        self._settings, self._measuring = settings, measuring
        self._set_percent, self._sleep, self._tell = set_percent, sleep, tell
        self._stable: dict[str, Share] = {}
        self.share: int | None = None
        """Share in percent that the gateway deals by; None before the first step."""
        self.tried: int | None = None
        """Share that was to be set last: another one where that failed or is under way."""

    def run(self) -> Outcome:
        """Go through the steps, and give the canary no share if it is worse at one of them."""
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
        """Look until a step is decided; return why the canary must go, or nothing."""
        settings, waited = self._settings, 0.0
        is_begun, sight = False, Sight({})
        while waited < settings.patience_seconds:
            try:
                if not is_begun:
                    self._measuring.begin()
                    is_begun = True
                self._sleep(settings.look_seconds)
                waited += settings.look_seconds
                sight = self._measuring.look()
            except NoSight as error:
                self._tell(f"{percent}%: cannot see: {error}")
                if not is_begun:
                    self._sleep(settings.look_seconds)
                    waited += settings.look_seconds
                continue
            found = self._judge(sight)
            self._tell(f"{percent}%: {_words(sight)} after {waited:.0f} s")
            worse = [name for name, finding in found.items() if finding is Finding.WORSE]
            if worse:
                return f"worse: {', '.join(worse)}"
            is_enough = bool(found) and Finding.TOO_FEW not in found.values()
            if is_enough and waited >= settings.hold_seconds:
                self._keep(sight)
                return ""
        least = settings.rule.least_requests
        return f"fewer than {least} requests to compare in {waited:.0f} s: {_words(sight)}"

    def _judge(self, sight: Sight) -> dict[str, Finding]:
        """Compare by measure. A stable version with few requests is as it was at a step before."""
        rule = self._settings.rule_of(len(sight.measures))
        return {
            name: compare(canary, self._stable_of(name, stable), rule)
            for name, (canary, stable) in sight.measures.items()
        }

    def _stable_of(self, name: str, now: Share) -> Share:
        before = self._stable.get(name, Share(0, 0))
        is_enough = now.total >= min(self._settings.rule.least_requests, before.total)
        return now if is_enough else before

    def _keep(self, sight: Sight) -> None:
        for name, (_, stable) in sight.measures.items():
            self._stable[name] = self._stable_of(name, stable)


def _words(sight: Sight) -> str:
    compared = [
        f"{name} {canary.bad}/{canary.total} (stable {stable.bad}/{stable.total})"
        for name, (canary, stable) in sight.measures.items()
    ]
    others = [f"{name} not comparable: {why}" for name, why in sight.not_comparable.items()]
    return ", ".join([*compared, *others])


def check_steps(steps: Sequence[int]) -> str:
    """Return what is wrong with the shares of a run; nothing where all is well."""
    if not steps:
        return "must have one step or more"
    if any(not 1 <= step <= 100 for step in steps):
        return "must be percentages from 1 to 100"
    if list(steps) != sorted(set(steps)):
        return "must rise from step to step"
    if steps[0] == 100:
        return "must begin below 100: there the stable version has no requests to compare with"
    return ""
