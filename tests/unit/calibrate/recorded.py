"""Pages of engines' metrics as the series of a Prometheus server, with a collector's labels."""

import re
from collections.abc import Mapping, Sequence

from twin.cluster.monitoring.promql import Series

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{([^}]*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
END = 1_750_000_600.0


class Recorded:
    """Series of engines. A query is a name, with or without matchers of equal or listed values."""

    def __init__(self, step: float = 15.0) -> None:
        self._step = step
        self._series: dict[tuple[str, frozenset[tuple[str, str]]], list[tuple[float, float]]] = {}
        self.asked: list[str] = []

    def add(self, pages: Sequence[str], labels: Mapping[str, str]) -> None:
        """Record an engine's pages; the last one is of `END`."""
        for number, page in enumerate(pages):
            at = END - self._step * (len(pages) - 1 - number)
            for line in page.splitlines():
                match = _LINE.match(line)
                if match and not match[1].endswith("_bucket"):
                    own = {**dict(_LABEL.findall(match[2] or "")), **labels}
                    key = (match[1], frozenset(own.items()))
                    self._series.setdefault(key, []).append((at, float(match[3])))

    def query(self, expression: str) -> list[Series]:
        """Return the series of an expression."""
        self.asked.append(expression)
        name, _, rest = expression.partition("{")
        wanted = re.findall(r'(\w+)(=~|=)"([^"]*)"', rest)
        return [
            Series({"__name__": name, **dict(labels)}, tuple(points))
            for (known, labels), points in self._series.items()
            if known == name and all(_fits(dict(labels), *each) for each in wanted)
        ]

    def history(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Return the series of an expression over a time range."""
        assert end - start > 0
        assert step > 0
        return self.query(expression)


def _fits(labels: Mapping[str, str], label: str, how: str, value: str) -> bool:
    found = labels.get(label, "")
    return found == value if how == "=" else re.fullmatch(value, found) is not None
