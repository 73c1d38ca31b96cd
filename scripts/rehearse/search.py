"""The search of a sweep: rounds of rehearsals over longer and longer periods.

1. Every value alone, for a short period that ends with the busiest hours.
2. Combinations of the values that helped, the best ones first, for a longer period.
3. The best few of each group, for all of the traffic.
4. The best option of each group together, unless that has run already.

Groups share no capacity, so that each rehearsal tries one option of every group at once. All
rehearsals of a round get the same requests, so that options differ by their settings alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scripts.rehearse.measured import Measured, Period, busiest_end, kept
from scripts.rehearse.sweep_options import Group, Option
from scripts.rehearse.workers import Workers
from simulator.demand.arrivals import Traffic
from simulator.rehearsal.description import Platform

SHORT, LONGER = 1 / 8, 1 / 3
"""Parts of the traffic that the first two rounds run."""
_COMBINED = 5
"""Combinations of each group in the second round."""
_MOST_KEPT = 5_000_000
"""Requests of a period that are kept in memory, instead of made again for each rehearsal."""

Vary = Callable[[Platform, Option], Platform]
Report = Callable[[str, int, int], None]
"""Called with a round's title, its finished rehearsals, and all of its rehearsals."""


@dataclass(frozen=True)
class Tried:
    """An option of a group in one rehearsal."""

    option: Option
    usd: float
    excess: float
    """By how much shares of late and failed requests exceed what is allowed; 0: all are kept."""
    late_share: float
    failed_share: float
    hours: float

    @property
    def key(self) -> tuple[float, float, int]:
        """Order of options: first those that keep everything, then the cheaper ones."""
        return self.excess, self.usd, len(self.option.settings)


@dataclass
class Found:
    """The result of a search."""

    groups: Sequence[Group]
    tried: list[list[Tried]]
    """By group: the longest rehearsal of each option."""
    best: list[Option]
    """By group."""
    as_it_is: Measured
    """All of the traffic with the stack as it is."""
    winner: Measured
    """All of the traffic with the best options."""
    rehearsals: int = 0

    @property
    def option(self) -> Option:
        """The best options of all groups together."""
        made = Option()
        for each in self.best:
            made = made.plus(each)
        return made


@dataclass
class Search:
    """A search.

    Args:
        platform: The platform as it is.
        traffic: All of the requests.
        groups: What may be changed.
        vary: Returns a platform with an option.
        workers: Where the rehearsals run.
        most_failed: Share of requests that may fail.
        finalists: Options of each group that run for all of the traffic.
        report: Gets the progress.
    """

    platform: Platform
    traffic: Traffic
    groups: Sequence[Group]
    vary: Vary
    workers: Workers
    most_failed: float
    finalists: int
    report: Report
    _rehearsals: int = 0
    _longest: list[dict[Option, Tried]] = field(default_factory=list[dict[Option, Tried]])

    def run(self) -> Found:
        """Return the best options."""
        self._longest = [{} for _ in self.groups]
        whole = self.traffic.seconds
        end = busiest_end(self.traffic, min(3600.0, whole))
        as_it_is = Option()
        singles = [[as_it_is, *group.singles] for group in self.groups]
        first = self._round("each value alone", singles, self._period(end, SHORT * whole))
        combined = [[as_it_is, *_combinations(tried)] for tried in (self._tried(first, singles))]
        second = self._round("values together", combined, self._period(end, LONGER * whole))
        ranked = [
            [each.option for each in sorted(tried, key=lambda one: one.key) if each.option.settings]
            for tried in self._tried(second, combined)
        ]
        last = [[as_it_is, *each[: self.finalists]] for each in ranked]
        third = self._round("finalists", last, self.traffic)
        finals = self._tried(third, last)
        best = [min(tried, key=lambda one: one.key).option for tried in finals]
        winner = self._winner(best, last, third)
        if winner is None:
            [winner] = self._round(
                "the best of all groups", [[each] for each in best], self.traffic
            )
            totals = [self._key(each) for each in third]
            place = min(range(len(third)), key=lambda at: totals[at])
            if totals[place] < self._key(winner):  # groups met on the same capacity after all
                best = [each[min(place, len(each) - 1)] for each in last]
                winner = third[place]
        return Found(
            self.groups,
            [sorted(each.values(), key=lambda one: (-one.hours, *one.key))
             for each in self._longest],
            best,
            third[0],
            winner,
            self._rehearsals,
        )  # fmt: skip

    def _period(self, end: float, seconds: float) -> Traffic:
        """Return a period that ends with the busiest hour, or begins with the traffic."""
        seconds = max(seconds, min(3600.0, self.traffic.seconds))
        if seconds >= self.traffic.seconds:
            return self.traffic
        start = max(0.0, end - seconds)
        return kept(Period(self.traffic, start, seconds), _MOST_KEPT)

    def _round(
        self, title: str, options: Sequence[Sequence[Option]], traffic: Traffic
    ) -> list[Measured]:
        """Rehearse the options of all groups side by side; a group without more repeats its first.

        Returns one measurement for each place in the longest list.
        """
        count = max((len(each) for each in options), default=0)
        platforms: list[Platform] = []
        for at in range(count):
            platform = self.platform
            for each in options:
                platform = self.vary(platform, each[at if at < len(each) else 0])
            platforms.append(platform)
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            self.report(title, done, count)

        self.report(title, 0, count)
        found = self.workers.run(platforms, traffic, advance)
        self._rehearsals += count
        for longest, tried in zip(self._longest, self._tried(found, options), strict=True):
            for one in tried:
                if one.option not in longest or one.hours >= longest[one.option].hours:
                    longest[one.option] = one
        return found

    def _tried(
        self, found: Sequence[Measured], options: Sequence[Sequence[Option]]
    ) -> list[list[Tried]]:
        """Return what a round says of each group's options."""
        return [
            [self._of(one, group, each) for each, one in zip(mine, found, strict=False)]
            for group, mine in zip(self.groups, options, strict=True)
        ]

    def _of(self, found: Measured, group: Group, option: Option) -> Tried:
        models = [found.models[name] for name in group.models]
        sent = sum(each.sent for each in models)
        return Tried(
            option,
            found.usd_of(group.models),
            found.excess(group.models, self.most_failed),
            max(each.late_share for each in models),
            sum(each.failed for each in models) / sent if sent else 0.0,
            found.hours,
        )

    def _winner(
        self, best: Sequence[Option], last: Sequence[Sequence[Option]], third: Sequence[Measured]
    ) -> Measured | None:
        """Return the rehearsal of all traffic that already had the best options."""
        for at, found in enumerate(third):
            if [each[at if at < len(each) else 0] for each in last] == list(best):
                return found
        return None

    def _key(self, found: Measured) -> tuple[float, float]:
        return found.excess(tuple(found.models), self.most_failed), found.usd


def _combinations(tried: Sequence[Tried]) -> list[Option]:
    """Return the values that helped: the best, the best two together, and so on.

    If none helped, they are the best values that cost least; a longer period may tell otherwise.
    """
    base, *others = tried
    ranked = sorted(others, key=lambda one: one.key)
    helped = [each for each in ranked if each.key[:2] < base.key[:2]] or ranked[:1]
    found: list[Option] = []
    together = Option()
    for each in helped:
        more = together.plus(each.option)
        if more == together:
            continue
        together = more
        found.append(together)
    chosen = found if len(found) <= _COMBINED else [*found[: _COMBINED - 1], found[-1]]
    alone = [each.option for each in helped[:2]]
    return list(dict.fromkeys([*chosen, *alone]))
