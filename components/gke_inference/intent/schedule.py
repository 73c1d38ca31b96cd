"""Schedules of the minimum of replicas: windows of a week in a time zone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import RULE, join, suggest
from gke_inference.catalogue.time_zones import zone, zone_names
from gke_inference.intent.settings import SomeReplicas
from gke_inference.settings import Settings
from gke_inference.settings.fields import ClockTime, EndTime, TimeZoneName
from gke_inference.settings.week import Day

MINUTES_OF_DAY: Final = 24 * 60
MINUTES_OF_WEEK: Final = 7 * MINUTES_OF_DAY
HOURS_OF_WEEK: Final = 7 * 24
_MOST_WINDOWS: Final = 50


def _known_zone(name: str) -> str:
    if name not in zone_names():
        rule = "must be a name of the IANA time zone database such as Europe/Berlin"
        raise PydanticCustomError(RULE, rule, {"hint": suggest(name, zone_names())})
    return name


TimeZone = Annotated[TimeZoneName, AfterValidator(_known_zone)]
"""Name of a time zone in the IANA database."""


class Interval(NamedTuple):
    """A part of a week with a minimum of replicas."""

    start: int
    """First minute, counted from Monday 00:00 on the clock of the time zone."""
    end: int
    """First minute after it, at most `MINUTES_OF_WEEK`."""
    least: int
    """Minimum of replicas."""


class ReplicaWindow(Settings):
    """Hours of some days with a larger minimum of replicas."""

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)]
    """Days on which the window starts."""
    start: ClockTime
    """Time of the day at which it starts, quoted, such as "08:00"."""
    end: EndTime
    """Time at which it ends, quoted; at most "24:00". A time that is not after the start is one of
    the next day."""
    min: SomeReplicas
    """Minimum number of replicas in the window, above the minimum outside of it."""

    @property
    def minutes(self) -> int:
        """Length of the window."""
        length = _minute(self.end) - _minute(self.start)
        return length if length > 0 else length + MINUTES_OF_DAY

    @property
    def starts(self) -> list[int]:
        """Minutes of the week at which it starts."""
        days = list(Day)
        return [
            days.index(day) * MINUTES_OF_DAY + _minute(self.start)
            for day in dict.fromkeys(self.days)
        ]


class ReplicaSchedule(Settings):
    """Windows of a week with a larger minimum of replicas."""

    time_zone: TimeZone
    """Time zone of the windows, a name of the IANA database such as Europe/Berlin. Windows follow
    its daylight saving time."""
    windows: Annotated[tuple[ReplicaWindow, ...], Field(min_length=1, max_length=_MOST_WINDOWS)]
    """Windows, which must not overlap. Outside of them, `replicas.min` applies."""

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Parts of the week with a minimum, in order; neighbors with the same one are joined."""
        found: list[Interval] = []
        for window in self.windows:
            for start in window.starts:
                end = start + window.minutes
                found.append(Interval(start, min(end, MINUTES_OF_WEEK), window.min))
                if end > MINUTES_OF_WEEK:
                    found.append(Interval(0, end - MINUTES_OF_WEEK, window.min))
        joined: list[Interval] = []
        for each in sorted(found):
            if joined and (joined[-1].end, joined[-1].least) == (each.start, each.least):
                joined[-1] = Interval(joined[-1].start, each.end, each.least)
            else:
                joined.append(each)
        return tuple(joined)

    @property
    def largest(self) -> int:
        """Largest minimum."""
        return max(window.min for window in self.windows)

    @property
    def shares(self) -> tuple[tuple[int, float], ...]:
        """Minima in increasing order, each with its share of a week."""
        found: dict[int, float] = {}
        for each in self.intervals:
            share = (each.end - each.start) / MINUTES_OF_WEEK
            found[each.least] = found.get(each.least, 0.0) + share
        return tuple(sorted(found.items()))

    def least_at(self, moment: datetime) -> int:
        """Return the minimum at a time, 0 outside of all windows.

        Args:
            moment: Time with its time zone.
        """
        return _least(self.intervals, self._minute(moment))

    def next_change(self, moment: datetime) -> datetime:
        """Return the first minute after a time at which the minimum differs.

        Returns:
            A time on the clock of the time zone; `moment` itself if the minimum never changes.
        """
        intervals, now = self.intervals, self.least_at(moment)
        at = moment.astimezone(UTC).replace(second=0, microsecond=0)
        for _ in range(MINUTES_OF_WEEK + MINUTES_OF_DAY):
            at += timedelta(minutes=1)
            if _least(intervals, self._minute(at)) != now:
                return at.astimezone(zone(self.time_zone))
        return moment

    def _minute(self, moment: datetime) -> int:
        local = moment.astimezone(zone(self.time_zone))
        return local.weekday() * MINUTES_OF_DAY + local.hour * 60 + local.minute


def schedule_problems(
    where: str, schedule: ReplicaSchedule, least: int, most: int
) -> Iterator[InputError]:
    """Yield minima that have no effect, and what `overlap_problems` finds.

    Args:
        where: Field of the schedule.
        schedule: The schedule.
        least: Minimum of replicas outside of windows.
        most: Maximum of replicas.
    """
    for number, window in enumerate(schedule.windows):
        if not least < window.min <= most:
            rule = f"must be above replicas.min ({least}) and at most replicas.max ({most})"
            yield InputError(join(where, "windows", number, "min"), rule, window.min)
    yield from overlap_problems(where, schedule)


def overlap_problems(where: str, schedule: ReplicaSchedule) -> Iterator[InputError]:
    """Yield windows that are empty, and windows that overlap an earlier one."""
    taken: dict[int, int] = {}
    for number, window in enumerate(schedule.windows):
        at = join(where, "windows", number)
        if window.start == window.end:
            yield InputError(join(at, "end"), "must differ from start", window.end)
            continue
        for start in window.starts:
            minutes = [minute % MINUTES_OF_WEEK for minute in range(start, start + window.minutes)]
            other = next((taken[minute] for minute in minutes if minute in taken), None)
            if other is not None:
                rule = f"must not overlap {join(where, 'windows', other)}"
                yield InputError(at, rule, f"{_day(start)} {window.start} to {window.end}")
                break
            taken.update(dict.fromkeys(minutes, number))


def _least(intervals: tuple[Interval, ...], minute: int) -> int:
    return next((one.least for one in intervals if one.start <= minute < one.end), 0)


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _day(minute: int) -> str:
    return list(Day)[minute // MINUTES_OF_DAY].value
