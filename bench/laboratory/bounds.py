"""Bounds on the laboratory's results: ratios between policies on paired traces."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from bench.laboratory.policies import AFFINITY, BASELINE, DEFAULTS, SHIPPED
from bench.laboratory.rows import Row

SATURATED_QPS = 20.0
"""Rate from which round robin is saturated in llm-d's ladder, and is compared."""
FULL_QPS = 40.0
"""Rate from which the ladder's replicas have room for a few requests more than they get."""
TAIL_MS = 1000.0
"""A request that waits for another one's answer waits 20 s. The published mean time to first token
at these rates is 0.15 s, and nine in ten are below 0.22 s (`calibration`)."""
OF_AFFINITY = 0.95
"""Least tokens of agents, relative to the best affinity. The goal is 0.97; 0.963 is reached."""
NOISE = 0.03
"""A smaller loss cannot be distinguished from chance."""
_DEVIATIONS = 2.5
"""Standard deviations of the mean over seeds. With eight seeds and an equal tail, a rate fails by
chance in 1 run in 50 (Student's t with 7 degrees of freedom), less often where 3 % is more than
the spread."""
_WIDEST = 1.5
"""Maximum allowed ratio, whatever the spread."""


@dataclass(frozen=True)
class Check:
    """A bound and whether it holds."""

    name: str
    what: str
    value: float | None
    """The measured ratio; None without rows, or if a row lacks the figure."""
    bound: float
    is_upper: bool = False
    """Whether the bound is an upper bound instead of a lower bound."""

    @property
    def passes(self) -> bool:
        """Whether the bound holds; false without figures."""
        if self.value is None or math.isnan(self.value):
            return False
        return self.value <= self.bound if self.is_upper else self.value >= self.bound

    def as_dict(self) -> dict[str, Any]:
        """Return the check in JSON-compatible form."""
        return {**asdict(self), "pass": self.passes}


Key = tuple[str, float, int]
_Pick = Callable[[Row], float | None]
"""Returns a figure of a row; None if it was not measured."""


def _throughput(row: Row) -> float:
    return float(row["throughput_tok_s"])


def _p99(row: Row) -> float | None:
    return None if row["ttft_ms"] is None else float(row["ttft_ms"]["p99"])


def _cost(row: Row) -> float | None:
    return None if row["usd_per_mtok"] is None else float(row["usd_per_mtok"])


def _steady(row: Row) -> float:
    return float(row["steady_tok_s"])


def _goodput(row: Row) -> float:
    return float(row["goodput_share"])


def _of(rows: Iterable[Row], policy: str) -> dict[Key, Row]:
    return {
        (row["workload"], float(row["rate_qps"]), int(row["seed"])): row
        for row in rows
        if row["policy"] == policy
    }


def ratio(
    rows: Iterable[Row], workload: str, policy: str, to: str, pick: _Pick, least_qps: float = 0.0
) -> float | None:
    """Return the geometric mean of the ratios of two policies, over rates and seeds.

    None without rows, or if a row lacks the figure.

    Args:
        rows: rows of a session.
        workload: name of the workload.
        policy: policy in the numerator.
        to: policy in the denominator.
        pick: returns the figure to compare.
        least_qps: lowest rate to include.
    """
    listed = list(rows)
    ours, theirs = _of(listed, policy), _of(listed, to)
    logs: list[float] = []
    for key, row in ours.items():
        if key[0] != workload or key[1] < least_qps or key not in theirs:
            continue
        above, below = pick(row), pick(theirs[key])
        if above is None or below is None:
            return None
        if above <= 0 < below:
            return 0.0
        # a comparison without a counterpart counts as equal, so that it meets and breaks no bound
        logs.append(math.log(above / below) if below > 0 else 0.0)
    return round(math.exp(sum(logs) / len(logs)), 4) if logs else None


def highest_rate(rows: Iterable[Row], workload: str) -> float:
    """Return the highest rate of a workload; 0 without rows."""
    return max((float(r["rate_qps"]) for r in rows if r["workload"] == workload), default=0.0)


def check(rows: list[Row]) -> list[Check]:
    """Return all bounds for the workloads in the rows."""
    names = list(dict.fromkeys(str(row["workload"]) for row in rows))
    found = [_soundness(rows)]
    for name in names:
        for other in (BASELINE, DEFAULTS):
            found.append(
                Check(
                    f"{name}: not worse than {other}",
                    "tokens per second while requests are sent, over all rates",
                    ratio(rows, name, SHIPPED, other, _steady),
                    1.0 - NOISE,
                )
            )
            top = highest_rate(rows, name)
            found.append(
                Check(
                    f"{name}: not worse than {other} when loaded",
                    f"share of answers within the SLO at {top:g} QPS",
                    ratio(rows, name, SHIPPED, other, _goodput, top),
                    1.0 - NOISE,
                )
            )
    found += _tails(rows)
    if "shared_prefix" in names:
        found += _shared_prefix(rows) + _published_tails(rows)
    if "lora" in names:
        top = highest_rate(rows, "lora")
        value = ratio(rows, "lora", SHIPPED, BASELINE, _throughput, top)
        found.append(Check("lora: adapters stay", f"throughput at {top:g} QPS", value, 1.3))
    if "unequal_hardware" in names:
        found += _unequal(rows)
    if "agents" in names:
        found += _agents(rows)
    return found


def _soundness(rows: list[Row]) -> Check:
    """Require that nothing is lost or refused."""
    bad = sum(bool(row["lost"] or row["refused"]) for row in rows)
    bad += sum(row["sent"] != row["answered"] + row["refused"] + row["lost"] for row in rows)
    return Check("every request answered", "rows with others", bad, 0, True)


def _shared_prefix(rows: list[Row]) -> list[Check]:
    saturated = f"rates from {SATURATED_QPS:g} QPS"
    pairs = (SHIPPED, BASELINE)
    return [
        Check(
            "shared_prefix: throughput of saturated replicas",
            saturated,
            ratio(rows, "shared_prefix", *pairs, _throughput, SATURATED_QPS),
            1.4,
        ),
        Check(
            "shared_prefix: slowest first tokens",
            f"p99 TTFT, {saturated}",
            ratio(rows, "shared_prefix", *pairs, _p99, SATURATED_QPS),
            0.4,
            is_upper=True,
        ),
        Check(
            "shared_prefix: cost per token",
            f"US dollars, {saturated}",
            ratio(rows, "shared_prefix", *pairs, _cost, SATURATED_QPS),
            0.7,
            is_upper=True,
        ),
    ]


def tail_ratios(rows: Iterable[Row]) -> dict[tuple[str, float], list[float | None]]:
    """Return the ratios of the shipped p99 time to first token to the defaults', over the seeds.

    Keys are workload and rate. A ratio is None if a row has no time to first token.
    """
    listed = list(rows)
    ours, theirs = _of(listed, SHIPPED), _of(listed, DEFAULTS)
    found: dict[tuple[str, float], list[float | None]] = {}
    for key in (key for key in ours if key in theirs):
        above, below = _p99(ours[key]), _p99(theirs[key])
        value = above / below if above is not None and below else None
        found.setdefault(key[:2], []).append(value)
    return found


def _tails(rows: list[Row]) -> list[Check]:
    """Return the bounds on the slowest first tokens, by workload and rate: 3 %, plus the spread.

    The spread is the standard deviation of the logarithm of one seed's ratio, for each rate by
    itself: on busier replicas, seeds differ more. A rate with one seed has no bound.
    """
    found: list[Check] = []
    for (workload, rate), every in tail_ratios(rows).items():
        name = f"{workload}: slowest first tokens not worse than {DEFAULTS}"
        if len(every) == 1:
            continue
        values = [value for value in every if value is not None]
        if len(values) < len(every):
            what = f"p99 TTFT at {rate:g} QPS, {len(every)} seeds"
            found.append(Check(name, what, None, _WIDEST, is_upper=True))
            continue
        logs = [math.log(value) for value in values]
        spread = stdev(logs)
        chance = math.exp(_DEVIATIONS * spread / math.sqrt(len(values)))
        what = (
            f"p99 TTFT at {rate:g} QPS, {len(values)} seeds; one varies by x{math.exp(spread):.2f}"
        )
        bound = round(min((1 + NOISE) * chance, _WIDEST), 3)
        found.append(Check(name, what, round(math.exp(fmean(logs)), 4), bound, is_upper=True))
    return found


def _published_tails(rows: list[Row]) -> list[Check]:
    """Return the bounds on the slowest first tokens of any seed where the ladder is fullest."""
    found: list[Check] = []
    ours = _of(rows, SHIPPED)
    for rate in sorted({key[1] for key in ours if key[0] == "shared_prefix"}):
        if rate < FULL_QPS:
            continue
        tails = [_p99(row) for key, row in ours.items() if key[:2] == ("shared_prefix", rate)]
        value = None if None in tails else max(each for each in tails if each is not None)
        what = f"largest p99 TTFT of {len(tails)} seeds at {rate:g} QPS, ms"
        found.append(
            Check("shared_prefix: no request waits for an answer", what, value, TAIL_MS, True)
        )
    return found


def _agents(rows: list[Row]) -> list[Check]:
    top = highest_rate(rows, "agents")
    return [
        Check(
            f"agents: close to {AFFINITY}",
            "tokens per second while requests are sent, over all rates",
            ratio(rows, "agents", SHIPPED, AFFINITY, _steady),
            OF_AFFINITY,
        ),
        Check(
            f"agents: twice {BASELINE}",
            f"tokens per second while requests are sent at {top:g} QPS",
            ratio(rows, "agents", SHIPPED, BASELINE, _steady, top),
            2.0,
        ),
    ]


def _unequal(rows: list[Row]) -> list[Check]:
    top = highest_rate(rows, "unequal_hardware")
    return [
        Check(
            "unequal_hardware: better than picker_defaults",
            f"share of answers within the SLO at {top:g} QPS",
            ratio(rows, "unequal_hardware", SHIPPED, DEFAULTS, _goodput, top),
            1.0 + NOISE,
        ),
    ]
