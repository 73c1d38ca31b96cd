"""A row of the laboratory's results: one stage of a workload under one policy."""

from dataclasses import asdict
from typing import Any

from bench.laboratory.lockstep import Stage
from bench.laboratory.policies import Policy
from simulator.replays.workloads import StageSpec, Workload
from simulator.traffic import Percentiles, Summary, Trace

Row = dict[str, Any]


def row_of(
    workload: Workload, policy: Policy, seed: int, spec: StageSpec, trace: Trace, stage: Stage,
    cached: tuple[int, int],
) -> Row:  # fmt: skip
    """Return the row of a stage.

    Args:
        workload: requests and replicas.
        policy: routing policy.
        seed: seed of the trace.
        spec: rate and duration of the stage.
        trace: sent requests.
        stage: results.
        cached: prompt tokens queried in prefix caches during the stage, and those found.
    """
    summary = stage.report.summary(workload.slo)
    asked, found = cached
    return {
        "workload": workload.name,
        "policy": policy.name,
        "seed": seed,
        "rate_qps": spec.rate,
        "speed": round(summary.seconds / stage.wall_seconds, 2),
        "replicas": len(workload.replicas),
        **_figures(summary, workload.usd_per_hour),
        "steady_tok_s": stage.report.steady_tok_s(spec.seconds),
        "prefix_hit_rate": round(found / asked, 4) if asked else None,
        "answers_of_replicas": stage.report.replicas(),
        "gateway_ms": _milliseconds(Percentiles.of_any(stage.hops)),
        "picker_looks": stage.ticks,
        "valid": is_valid(summary.lag_p99_ms, stage.ticks, has_picker=policy.picker is not None),
        "trace": trace.digest,
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
        "client_lag_p99_ms": summary.lag_p99_ms,
    }


def _milliseconds(found: Percentiles | None) -> Row | None:
    return None if found is None else asdict(found)


def is_valid(lag_ms: float, ticks: int, *, has_picker: bool) -> bool:
    """Return whether a row is valid.

    In lockstep, neither a slow client nor a slow gateway can distort a figure, because time stands
    still for them. The remaining checks are that the client sent requests when they were due, and
    that the picker, if any, saw the replicas.
    """
    return lag_ms < 1.0 and (ticks > 0 or not has_picker)
