"""`bench confirm`: compares the laboratory with an independent load generator.

It measures one figure of the routing laboratory twice: the throughput of the shipped picker over
round robin on saturated replicas of the `lora` workload. The laboratory computes it with the
modeled picker; inference-perf measures it in real time with the real one. The result is written to
build/bench/confirm.json.
"""

import json
import os
import platform
import tempfile
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from bench.laboratory import computed, load_tool
from bench.laboratory.policies import BASELINE, SHIPPED, policies
from bench.laboratory.realtime import behind_gateway
from bench.laboratory.rig import RigError
from bench.laboratory.rows import Row
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import CommandError, console
from scripts.terminal.tables import Listing, figure, print_table
from simulator.replays.workloads import (
    ADAPTERS,
    LORA_ANSWER,
    LORA_PROMPT,
    LORA_SKEW,
    MODEL,
    StageSpec,
    Workload,
    workloads,
)
from twin.host.paths import REPOSITORY

_FILE = REPOSITORY / "build" / "bench" / "confirm.json"
_WORKLOAD = "lora"
_POLICIES = (BASELINE, SHIPPED)
_SEEDS = (1, 2)
_STAGES = (StageSpec(8, 15, is_warm_up=True), StageSpec(12, 30))
"""Round robin gets some 5 requests a second out of these replicas, so it is saturated; more
requests a second and a busy machine of two cores sends them late."""
BOUND = 15.0
"""By how many percent the tool's ratio may differ from the laboratory's. The tool draws its own
arrivals and adapters, so the two never send the same trace."""
_LAG_MS = 250.0
"""A run in which client or replicas were later than this says more about the machine; the times to
first token at the saturated rate are seconds."""
_PATIENCE_SECONDS = 1200.0


def measure() -> bool:
    """Measure with both, write the file, print the table; return whether they agree.

    Raises:
        CommandError: The tool is not available, or a run failed.
    """
    workload = workloads()[_WORKLOAD]
    ensure_tools("laboratory")
    try:
        program = load_tool.install()
        measured = {name: _tool(program, workload, name) for name in _POLICIES}
    except (load_tool.LoadToolError, RigError, OSError) as error:
        raise CommandError(str(error)) from error
    rows = [
        row
        for policy in policies(workload.facts)
        if policy.name in _POLICIES
        for seed in _SEEDS
        for row in computed.do(computed.Job(_WORKLOAD, policy, seed, _STAGES))
    ]
    result = _result(measured, rows)
    _FILE.parent.mkdir(parents=True, exist_ok=True)
    _FILE.write_text(json.dumps(result, indent=1) + "\n")
    _print(result)
    return bool(result["pass"])


def _tool(program: Path, workload: Workload, name: str) -> Row:
    """Run the tool against a policy and return its figures of the last stage."""
    policy = next(one for one in policies(workload.facts) if one.name == name)
    with tempfile.TemporaryDirectory(prefix="confirm-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        load_tool.write_tokenizer(folder / "tokenizer")
        with behind_gateway(folder, workload, policy) as behind:
            configured = load_tool.configuration(
                behind.url, folder, _STAGES, load_tool.shares(ADAPTERS, LORA_SKEW), model=MODEL,
                prompt_tokens=LORA_PROMPT, output_tokens=LORA_ANSWER,
            )  # fmt: skip
            before, begun = behind.status(), time.monotonic()
            load_tool.run(program, configured, folder, _PATIENCE_SECONDS)
            after, seconds = behind.status(), time.monotonic() - begun
        figures = load_tool.figures(folder, len(_STAGES) - 1)
    lag_ms = round(1000 * after["longest_lag_seconds"], 1)
    console.print(f"inference-perf: {name}: {figures.throughput_tok_s:.0f} tok/s")
    return {
        **asdict(figures),
        "replicas_lag_ms": lag_ms,
        "replicas_cpu_share": round((after["cpu_seconds"] - before["cpu_seconds"]) / seconds, 2),
        "load_1min": round(os.getloadavg()[0], 1),
        "valid": figures.failed == 0 and max(lag_ms, figures.delay_p99_ms) <= _LAG_MS,
    }


def _result(measured: dict[str, Row], rows: list[Row]) -> dict[str, Any]:
    rate = _STAGES[-1].rate
    lab = {name: _lab(rows, name, rate) for name in _POLICIES}
    ratios = {
        what: compare(measured, lab, what) for what in ("throughput_tok_s", "ttft_p50", "ttft_p99")
    }
    difference = ratios["throughput_tok_s"]["difference_percent"]
    return {
        "date": date.today().isoformat(),
        "command": "bench confirm",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}; load {os.getloadavg()[1]:.1f} over five minutes",
        "tool": f"inference-perf {load_tool.version()}, in real time",
        "workload": _WORKLOAD,
        "rate_qps": rate,
        "stages": [{"rate_qps": s.rate, "seconds": s.seconds} for s in _STAGES],
        "inference_perf": measured,
        "laboratory": lab,
        "shipped_over_round_robin": ratios,
        "bound_percent": BOUND,
        "valid": all(row["valid"] for row in measured.values()),
        "pass": abs(difference) <= BOUND and not any(r["failed"] for r in measured.values()),
    }


def _lab(rows: list[Row], policy: str, rate: float) -> Row:
    """Return the laboratory's figures of a policy, averaged over its seeds."""
    found = [row for row in rows if row["policy"] == policy and row["rate_qps"] == rate]
    count = len(found)
    return {
        "seeds": count,
        "throughput_tok_s": round(sum(row["throughput_tok_s"] for row in found) / count, 1),
        "ttft_ms": {
            p: round(sum(row["ttft_ms"][p] for row in found) / count, 1) for p in ("p50", "p99")
        },
    }


def compare(tool: dict[str, Row], lab: dict[str, Row], what: str) -> dict[str, float]:
    """Return the ratio of the shipped picker to round robin, from the tool and the laboratory.

    Args:
        tool: Figures of each policy, from the tool.
        lab: Figures of each policy, from the laboratory.
        what: Figure, such as `throughput_tok_s` or `ttft_p50`.
    """

    def ratio(figures: dict[str, Row]) -> float:
        shipped, baseline = (
            row[what] if what in row else row["ttft_ms"][what.removeprefix("ttft_")]
            for row in (figures[SHIPPED], figures[BASELINE])
        )
        return shipped / baseline

    by_tool, by_lab = ratio(tool), ratio(lab)
    return {
        "inference_perf": round(by_tool, 3),
        "laboratory": round(by_lab, 3),
        "difference_percent": round(100 * (by_tool / by_lab - 1), 1),
    }


def _print(result: dict[str, Any]) -> None:
    table = Listing(
        "BY", "POLICY", figure("TOK/S"), figure("TTFT P50 MS"), figure("TTFT P99 MS"),
        figure("SENT LATE P99 MS"),
        title=f"{result['workload']} at {result['rate_qps']:g} requests a second",
    )  # fmt: skip
    for by in ("inference_perf", "laboratory"):
        for name, row in result[by].items():
            late = f"{row['delay_p99_ms']:.0f}" if "delay_p99_ms" in row else ""
            table.add_row(
                by, name, f"{row['throughput_tok_s']:.0f}", f"{row['ttft_ms']['p50']:.0f}",
                f"{row['ttft_ms']['p99']:.0f}", late,
            )  # fmt: skip
    print_table(table)
    for what, ratio in result["shipped_over_round_robin"].items():
        console.print(
            f"{what}: shipped over round robin {ratio['inference_perf']:.2f}, in the laboratory "
            f"{ratio['laboratory']:.2f}: {ratio['difference_percent']:+.1f} %"
        )
    if not result["valid"]:
        console.print("[red]client or replicas fell behind: the machine was too busy[/red]")
