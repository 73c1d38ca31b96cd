"""Pages of metrics in Prometheus' format."""

import urllib.request


def total(url: str, name: str) -> float:
    """Return the sum of a page's series whose name and labels begin with a text."""
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - a program of the test
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))
