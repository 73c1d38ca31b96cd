"""Ratios between routing policies, read from the page of results that `bench routing` writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import geometric_mean

SHIPPED, BASELINE, DEFAULTS = "shipped", "round_robin", "picker_defaults"
_SECTION = re.compile(r"^## (\w+)$", re.MULTILINE)
_ROW = re.compile(r"^\| *([\d.]+) \| (\w+) \| (.+) \|$", re.MULTILINE)
_SEEDS = re.compile(
    r"^\| shared_prefix: slowest first tokens not worse than picker_defaults \|"
    r" p99 TTFT at [\d.]+ QPS[^|]*\| ([\d.]+) \|",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Measures:
    """Figures of one policy at one rate."""

    tokens_per_second: float
    ttft_p99_ms: float
    usd_per_million: float


Results = Mapping[str, Mapping[tuple[float, str], Measures]]
"""Figures by workload, then by requests per second and policy."""


def results_of(page: str) -> Results:
    """Return the figures in the tables of workloads.

    Raises:
        ValueError: The page has no such table.
    """
    parts = _SECTION.split(page)
    found = {
        name: measures
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
        if (measures := _measures(text))
    }
    if not found:
        raise ValueError("docs/routing-results.md: must have tables of workloads, got none")
    return found


def _measures(text: str) -> dict[tuple[float, str], Measures]:
    found: dict[tuple[float, str], Measures] = {}
    for rate, policy, rest in _ROW.findall(text):
        cells = rest.split(" | ")
        if len(cells) != 6:
            continue
        tokens, ttft, _, _, usd, _ = cells
        found[float(rate), policy] = Measures(
            _number(tokens), _number(ttft.split(" / ")[-1]), _number(usd)
        )
    return found


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def ratio(results: Results, workload: str, measure: str, to: str, least_qps: float = 0.0) -> float:
    """Return the geometric mean over rates of the shipped policy's figure over another's.

    Args:
        results: Figures of the page.
        workload: Name of the workload.
        measure: Field of `Measures`.
        to: Policy in the denominator.
        least_qps: Lowest rate to include.
    """
    rows = results[workload]
    return geometric_mean(
        getattr(rows[rate, SHIPPED], measure) / getattr(rows[rate, to], measure)
        for rate, policy in rows
        if policy == SHIPPED and rate >= least_qps
    )


def tails_over_seeds(page: str) -> tuple[float, ...]:
    """Return the ratios of p99 to the picker's defaults at each rate, over eight seeds."""
    return tuple(map(float, _SEEDS.findall(page)))
