"""Deviation of the laboratory from published results: llm-d's ladder on 16 H100.

Source: llm-d/llm-d guides/optimized-baseline/README.md, "Benchmarking Report": Qwen3-32B, 8
replicas of 2 H100, a Kubernetes Service (round robin) and llm-d's optimized routing.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bench.laboratory.policies import BASELINE, SHIPPED
from bench.laboratory.rows import Row


@dataclass(frozen=True)
class Published:
    """A rate of the published ladder."""

    rate_qps: float
    baseline_tok_s: float
    optimized_tok_s: float
    baseline_ttft_s: float
    """Mean."""
    optimized_ttft_s: float


PUBLISHED = (
    Published(3, 1797, 1777, 0.415, 0.133),
    Published(10, 4215, 5066, 0.630, 0.125),
    Published(15, 5381, 7053, 0.881, 0.122),
    Published(20, 6205, 11688, 18.1, 0.174),
    Published(30, 5702, 13862, 24.6, 0.117),
    Published(40, 6336, 16041, 68.7, 0.153),
    Published(60, 6551, 17064, 75.6, 0.154),
)


def calibration_errors(rows: list[Row]) -> list[dict[str, Any]]:
    """Return results and relative errors for each published rate that was run.

    The result is the mean over the seeds of a rate.
    """
    found: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        if row["workload"] == "shared_prefix":
            found.setdefault((row["policy"], float(row["rate_qps"])), []).append(row)
    out: list[dict[str, Any]] = []
    for point in PUBLISHED:
        for policy, tokens, ttft in (
            (BASELINE, point.baseline_tok_s, point.baseline_ttft_s),
            (SHIPPED, point.optimized_tok_s, point.optimized_ttft_s),
        ):
            seeds = found.get((policy, point.rate_qps))
            if seeds is None:
                continue
            here = fmean(float(row["throughput_tok_s"]) for row in seeds)
            means = [row["ttft_mean_ms"] for row in seeds]
            seconds = None if None in means else fmean(float(each) for each in means) / 1000
            out.append(
                {
                    "rate_qps": point.rate_qps,
                    "policy": policy,
                    "published_tok_s": tokens,
                    "found_tok_s": round(here, 1),
                    "error_tok_s": round(here / tokens - 1, 3),
                    "published_ttft_mean_s": ttft,
                    "found_ttft_mean_s": None if seconds is None else round(seconds, 3),
                    "error_ttft": None if seconds is None else round(seconds / ttft - 1, 3),
                }
            )
    return out
