"""Durations in Prometheus format, on the twin's clock. Pure."""

import re

_UNITS = {"y": 31_536_000, "w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_WHOLE = re.compile(r"^(?:\d+(?:ms|[ywdhms]))+$")
_PART = re.compile(r"(\d+)(ms|[ywdhms])")
_RANGE = re.compile(r"\[((?:[0-9]+(?:ms|[smhdwy]))+)\]")
_LONGEST_SCRAPE = "1m"
_SCRAPES = 4


def seconds(text: str) -> float:
    """Return the seconds of a duration such as `1m30s`.

    Raises:
        ValueError: the text is not a duration.
    """
    if text == "0":
        return 0.0
    if not _WHOLE.match(text):
        raise ValueError(f"not a valid duration string: {text!r}")
    return float(sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(text)))


def text(amount: float) -> str:
    """Return seconds as a duration with milliseconds."""
    return f"{round(amount * 1000)}ms"


class Clock:
    """A conversion of durations from Google's clock to the twin's.

    Args:
        speed: how much faster than Google's the twin's clock runs.
        shortest: shortest interval between scrapes or evaluations, in seconds of real time.
    """

    def __init__(self, speed: float, shortest: float) -> None:
        self._speed = speed
        self._shortest = shortest

    def interval(self, duration: str) -> str:
        """Return a converted interval, at least the shortest one."""
        own = seconds(duration)
        return text(min(own, max(self._shortest, own / self._speed)))

    def windows(self, query: str) -> str:
        """Return PromQL with its ranges on the twin's clock, each with at least four scrapes."""
        least = _SCRAPES * seconds(self.interval(_LONGEST_SCRAPE))

        def own(found: re.Match[str]) -> str:
            whole = seconds(found[1])
            return f"[{text(min(whole, max(least, whole / self._speed)))}]"

        return _RANGE.sub(own, query)

    def lasting(self, duration: str) -> str:
        """Return the converted duration of an alert's condition."""
        return text(seconds(duration) / self._speed)
