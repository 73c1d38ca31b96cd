"""A row of the laboratory's results: one stage of a workload under one policy."""

from dataclasses import asdict
from typing import Any

from bench.laboratory.policies import Policy
from simulator.replays.workloads import StageSpec, Workload
from simulator.traffic import Percentiles, Report, Summary

Row = dict[str, Any]


def row_of(
    workload: Workload, policy: Policy, seed: int, spec: StageSpec, report: Report,
    hits: float | None, digest: str,
) -> Row:  # fmt: skip
    """Return the row of a stage.

    Args:
        workload: requests and replicas.
        policy: routing policy.
        seed: seed of the trace.
        spec: rate and duration of the stage.
        report: results.
        hits: part of the prompt tokens that prefix caches had during the stage; None without any.
        digest: hash of the requests, which shows that runs are paired.
    """
    return {
        "workload": workload.name,
        "policy": policy.name,
        "seed": seed,
        "rate_qps": spec.rate,
        "replicas": len(workload.replicas),
        **_figures(report.summary(workload.slo), workload.usd_per_hour),
        "steady_tok_s": report.steady_tok_s(spec.seconds),
        "prefix_hit_rate": None if hits is None else round(hits, 4),
        "answers_of_replicas": report.replicas(),
        "trace": digest,
        "config": policy.digest,
    }


def _figures(summary: Summary, usd_per_hour: float) -> Row:
    tokens_per_hour = summary.throughput_tok_s * 3600
    cost = usd_per_hour / tokens_per_hour * 1e6 if tokens_per_hour else None
    return {
        "sent": summary.sent,
        "answered": summary.answered,
        "refused": summary.refused,
        "lost": summary.lost,
        "errors": summary.errors,
        "seconds": summary.seconds,
        "throughput_tok_s": summary.throughput_tok_s,
        "ttft_ms": _milliseconds(summary.ttft_ms),
        "ttft_mean_ms": summary.ttft_mean_ms,
        "tpot_ms": _milliseconds(summary.tpot_ms),
        "goodput": summary.goodput,
        "goodput_share": summary.goodput_share,
        "usd_per_mtok": None if cost is None else round(cost, 4),
    }


def _milliseconds(found: Percentiles | None) -> Row | None:
    return None if found is None else asdict(found)
