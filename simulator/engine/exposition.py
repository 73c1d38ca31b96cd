"""Prometheus metrics in the text format, without a client library: counters, gauges, histograms."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


def number(value: float) -> str:
    """Return a value in the format of the Python Prometheus client."""
    return repr(float(value))


def label_text(names: Sequence[str], values: Sequence[str]) -> str:
    """Return `{a="x",b="y"}`, or nothing without labels."""
    if not names:
        return ""
    pairs = (
        '{}="{}"'.format(name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for name, value in zip(names, values, strict=True)
    )
    return "{" + ",".join(pairs) + "}"


@dataclass
class _Buckets:
    counts: list[int]
    total: float = 0.0
    count: int = 0


@dataclass
class Metric:
    """A metric family, whose text is cached until it changes.

    Args:
        name: exposed name, with `_total` for a counter.
        kind: type of the metric.
        help: help text in one line.
        labels: label names, in the order of the values in each call.
        buckets: upper bounds of a histogram, without infinity.
        created: creation time in seconds since the epoch, exposed as a separate family.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    created: float | None = None
    values: dict[tuple[str, ...], float] = field(default_factory=dict[tuple[str, ...], float])
    _histograms: dict[tuple[str, ...], _Buckets] = field(
        default_factory=dict[tuple[str, ...], _Buckets]
    )
    _text: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no series yet."""
        return not self.values and not self._histograms

    def set(self, value: float, *labels: str) -> None:
        """Set a gauge."""
        if self.values.get(labels) != value:
            self.values[labels] = value
            self._text = None

    def add(self, amount: float = 1.0, *labels: str) -> None:
        """Raise a counter."""
        self.values[labels] = self.values.get(labels, 0.0) + amount
        if amount:
            self._text = None

    def clear(self) -> None:
        """Remove all series."""
        self.values.clear()
        self._text = None

    def observe(self, value: float, *labels: str, times: int = 1) -> None:
        """Observe a value in a histogram, once or several times."""
        found = self._histograms.get(labels)
        if found is None:
            found = self._histograms[labels] = _Buckets([0] * (len(self.buckets) + 1))
        found.counts[bisect_left(self.buckets, value)] += times
        found.total += value * times
        found.count += times
        self._text = None

    def total(self) -> float:
        """Return the sum over all series; for a histogram, of the observed values."""
        return sum(found.total for found in self._histograms.values()) + sum(self.values.values())

    def touch(self, *labels: str) -> None:
        """Expose a series before its first value, as clients do for a child created at startup."""
        if self.kind == "histogram":
            empty = _Buckets([0] * (len(self.buckets) + 1))
            self._histograms.setdefault(labels, empty)
        else:
            self.values.setdefault(labels, 0.0)
        self._text = None

    def render(self) -> str:
        """Return the family in the text format."""
        if self._text is None:
            self._text = "".join(
                [
                    f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n",
                    *self._rows(),
                    *self._beginnings(),
                ]
            )
        return self._text

    def _beginnings(self) -> list[str]:
        if self.created is None:
            return []
        name = self.name.removesuffix("_total") if self.kind == "counter" else self.name
        return [
            f"# HELP {name}_created {self.help}\n# TYPE {name}_created gauge\n",
            *(
                f"{name}_created{label_text(self.labels, labels)} {number(self.created)}\n"
                for labels in (*self.values, *self._histograms)
            ),
        ]

    def _rows(self) -> list[str]:
        rows = [
            f"{self.name}{label_text(self.labels, labels)} {number(value)}\n"
            for labels, value in self.values.items()
        ]
        for labels, found in self._histograms.items():
            running = 0
            for bound, count in zip((*self.buckets, float("inf")), found.counts, strict=True):
                running += count
                le = "+Inf" if bound == float("inf") else number(bound)
                text = label_text((*self.labels, "le"), (*labels, le))
                rows.append(f"{self.name}_bucket{text} {number(running)}\n")
            text = label_text(self.labels, labels)
            rows.append(f"{self.name}_count{text} {number(found.count)}\n")
            rows.append(f"{self.name}_sum{text} {number(found.total)}\n")
        return rows
