"""`bench fairness`: what one client waits when another sends ten times its share.

Two clients share a full pool of simulated replicas in real time, with and without the picker's
queues. The result is written to build/bench/fairness.json.
"""

import json
import os
import platform
from dataclasses import asdict
from datetime import date
from typing import Any

from bench.laboratory.fairness import LOUD, QUIET, Load, Ran, measured
from bench.laboratory.rig import RigError
from gke_inference.gateway.picker_config import FlowControl
from infra.stack.gateway import Fairness
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import CommandError, console
from scripts.terminal.tables import Listing, figure, print_table
from twin.host.paths import REPOSITORY

BOUND = 1.20
"""How much longer the quiet client's p95 time to first token may be with the queues."""
_LAG_MS = 250.0
"""A run with queues in which replicas were later than this says more about the machine."""
_FILE = REPOSITORY / "build" / "bench" / "fairness.json"
_FACTORS = (1, 10)
_SECONDS = 100.0


def measure() -> bool:
    """Measure both, write the file, print the table; return whether the bound holds.

    Raises:
        CommandError: A run failed.
    """
    ensure_tools("laboratory")
    loads = [Load(_SECONDS, factor) for factor in _FACTORS]
    flows = {"with": FlowControl(Fairness().max_wait_seconds), "without": None}
    try:
        runs = {name: measured(flow, loads) for name, flow in flows.items()}
    except (RigError, OSError) as error:
        raise CommandError(str(error)) from error
    result = _result(runs, loads[0])
    _FILE.parent.mkdir(parents=True, exist_ok=True)
    _FILE.write_text(json.dumps(result, indent=1) + "\n")
    _print(result)
    return bool(result["pass"])


def ratio_of(runs: list[Ran]) -> float:
    """Return the quiet client's p95 in the last run, relative to the first."""
    first, last = (run.clients[QUIET].ttft_ms.p95 for run in (runs[0], runs[-1]))
    return round(last / first, 2)


def _result(runs: dict[str, list[Ran]], load: Load) -> dict[str, Any]:
    ratios = {name: ratio_of(of) for name, of in runs.items()}
    is_valid = all(run.replicas_lag_ms <= _LAG_MS for run in runs["with"])
    return {
        "date": date.today().isoformat(),
        "command": "bench fairness",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}; load {os.getloadavg()[1]:.1f} over five minutes",
        "requests_per_second": {QUIET: load.quiet, LOUD: load.share},
        "seconds": load.seconds,
        "rows": [
            {"queues": name, "factor": factor, **asdict(run)}
            for name, of in runs.items()
            for factor, run in zip(_FACTORS, of, strict=True)
        ],
        "quiet_p95_ratio": ratios,
        "bound": BOUND,
        "valid": is_valid,
        "pass": is_valid and ratios["with"] <= BOUND,
    }


def _print(result: dict[str, Any]) -> None:
    table = Listing(
        "QUEUES", "LOUD SENDS", "CLIENT", figure("SENT"), figure("ANSWERED"),
        figure("TTFT P50 MS"), figure("TTFT P95 MS"), figure("REPLICAS LATE MS"),
    )  # fmt: skip
    for row in result["rows"]:
        for client, saw in row["clients"].items():
            times = saw["ttft_ms"]
            table.add_row(
                row["queues"], f"{row['factor']}x its share", client, str(saw["sent"]),
                str(saw["answered"]), f"{times['p50']:.0f}", f"{times['p95']:.0f}",
                f"{row['replicas_lag_ms']:.0f}",
            )  # fmt: skip
    print_table(table)
    for name, ratio in result["quiet_p95_ratio"].items():
        console.print(f"{name} queues, the quiet client's p95 changes by a factor of {ratio}")
    if not result["valid"]:
        console.print("[red]replicas fell behind: the machine was too busy[/red]")
