"""`bench routing`: the routing laboratory, written to build/bench/routing.json."""

import json
import os
import platform
import time
from datetime import date
from typing import Any

from rich.text import Text

from bench.laboratory import bounds
from bench.laboratory.calibration import calibration_errors
from bench.laboratory.computed import Job, jobs_of, known, run_all
from bench.laboratory.curves import draw
from bench.laboratory.policies import policies
from bench.laboratory.results import page
from bench.laboratory.rows import Row
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import console
from scripts.terminal.options import check_words
from scripts.terminal.tables import Listing, figure, measured, print_table, prose
from simulator.replays.picker_configs import Facts
from twin.host.paths import REPOSITORY

_FILE = REPOSITORY / "build" / "bench" / "routing.json"
_IMAGES = REPOSITORY / "docs" / "images"
_PAGE = REPOSITORY / "docs" / "routing-results.md"
_ENGINE = "simulator.engine (vLLM's scheduler, step times of a roofline), compiled"
_PICKER = "gateway-api-inference-extension v1.5.0"


def measure(
    *,
    is_quick: bool,
    chosen: list[str] | None,
    names: list[str] | None,
    workers: int = 2,
    draws: bool = False,
) -> bool:
    """Run the laboratory, write its file, print its tables; return whether every bound is met.

    Bounds compare policies, so they are not checked for a selection of policies.

    Args:
        is_quick: Whether to use one seed and short stages.
        chosen: Workloads; None or empty for all.
        names: Policies; None or empty for all.
        workers: Number of parallel runs.
        draws: Whether to update the page and the plots of the docs.

    Raises:
        CommandError: a name is unknown.
    """
    every = known()
    check_words("--workload", chosen, every)
    check_words("--policy", names, [one.name for one in policies(Facts(has_sessions=True))])
    jobs = jobs_of((every[name] for name in chosen or every), names or None, is_quick=is_quick)
    ensure_tools("replays")
    begun = time.monotonic()
    rows = run_all(jobs, workers, _tell)
    order = [*every]
    rows.sort(key=lambda r: (order.index(r["workload"]), r["rate_qps"], r["policy"], r["seed"]))
    checks = bounds.check(rows) if not names else []
    result = _write(rows, checks, is_quick=is_quick, seconds=time.monotonic() - begun)
    _print(rows, checks)
    if draws:
        draw(rows, _IMAGES)
        _PAGE.write_text(page(result))
    return all(found.passes for found in checks)


def _tell(job: Job, rows: list[Row]) -> None:
    last = rows[-1]
    times: Row = last["ttft_ms"] or {}
    console.print(
        f"{job.workload}, {job.policy.name}, seed {job.seed}: "
        f"{last['throughput_tok_s']:.0f} tok/s at {last['rate_qps']:g} QPS, "
        f"p99 TTFT {measured(times.get('p99'), '.0f')} ms"
    )


def _write(
    rows: list[Row], checks: list[bounds.Check], *, is_quick: bool, seconds: float
) -> dict[str, Any]:
    _FILE.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "command": "bench routing" + (" --quick" if is_quick else ""),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}; load {os.getloadavg()[1]:.1f} over five minutes",
        "seconds": round(seconds, 1),
        "picker": _PICKER,
        "engine": _ENGINE,
        "pass": all(found.passes for found in checks),
        "checks": [found.as_dict() for found in checks],
        "calibration": calibration_errors(rows),
        "rows": rows,
    }
    _FILE.write_text(json.dumps(result, indent=1) + "\n")
    return result


def _print(rows: list[Row], checks: list[bounds.Check]) -> None:
    table = Listing(
        "WORKLOAD", figure("QPS"), "POLICY", figure("SEED", spare=2), figure("TOK/S"),
        figure("TTFT P50", spare=1), figure("P99 MS"), figure("TPOT P99", spare=1),
        figure("GOODPUT"), figure("$/MTOK", spare=1), figure("HITS", spare=2),
        figure("LOST", spare=2), title="Routing laboratory",
    )  # fmt: skip
    for row in rows:
        ttft: Row = row["ttft_ms"] or {}
        tpot: Row = row["tpot_ms"] or {}
        table.add_row(
            row["workload"], f"{row['rate_qps']:g}", row["policy"], str(row["seed"]),
            f"{row['throughput_tok_s']:.0f}", measured(ttft.get("p50"), ".0f"),
            measured(ttft.get("p99"), ".0f"), measured(tpot.get("p99"), ".0f"),
            f"{row['goodput']:.2f}", measured(row["usd_per_mtok"], ".2f"),
            measured(row["prefix_hit_rate"], ".0%"), str(row["lost"]),
        )  # fmt: skip
    print_table(table)
    if not checks:
        return
    verdicts = Listing("BOUND", prose("BY"), "FOUND", "MUST BE", "", title="Bounds")
    for one in checks:
        sign = "at most" if one.is_upper else "at least"
        found = "nothing" if one.value is None else f"{one.value:g}"
        mark = Text("holds", "green") if one.passes else Text("FAILS", "red")
        verdicts.add_row(one.name, one.what, found, f"{sign} {one.bound:g}", mark)
    print_table(verdicts)
