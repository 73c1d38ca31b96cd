"""How many requests are open, by the engine's own metrics."""

import http.client
import re
import urllib.request
from collections.abc import Sequence

_SERIES = re.compile(r"(?P<name>[^\s{]+)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="?([^",}]*)"?')


def open_requests(url: str, metrics: Sequence[str]) -> "float | None":
    """Return the sum of some gauges of a page; None where the page cannot be read or has none.

    Args:
        url: of the page.
        metrics: names, with labels in braces where only some series count.
    """
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - this pod
            page = answer.read().decode(errors="replace")
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return total(page, metrics)


def total(page: str, metrics: Sequence[str]) -> "float | None":
    """Return the sum of some gauges of a page in Prometheus' text format; None without any."""
    wanted: list[tuple[str, dict[str, str]]] = []
    for metric in metrics:
        name, _, labels = metric.partition("{")
        wanted.append((name, dict(_LABEL.findall(labels))))
    values: list[float] = []
    for line in page.splitlines():
        found = None if line.startswith("#") else _SERIES.match(line)
        if found is None:
            continue
        labels = dict(_LABEL.findall(found["labels"] or ""))
        if any(name == found["name"] and asked.items() <= labels.items() for name, asked in wanted):
            values.append(float(found["value"]))
    return sum(values) if values else None
