"""`bench picker`: a few points of the laboratory with the real picker beside the modeled one.

Both run the same requests on the same computed engines. The real picker and the real Envoy decide
while the engines' time stands still, so that the load of the machine does not matter.
"""

from collections.abc import Iterator
from typing import Any

from bench.laboratory import computed, real
from bench.laboratory.lockstep import StuckError
from bench.laboratory.policies import BASELINE, DEFAULTS, SHIPPED, policies
from bench.laboratory.rig import RigError
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import CommandError, console
from simulator.replays.workloads import StageSpec

Row = dict[str, Any]
_SEED = 3
POINTS = (
    ("shared_prefix", (StageSpec(15, 50, is_warm_up=True), StageSpec(40, 38))),
    ("lora", (StageSpec(8, 30, is_warm_up=True), StageSpec(24, 40))),
    ("unequal_hardware", (StageSpec(20, 15, is_warm_up=True), StageSpec(60, 20))),
)
"""Workloads and stages; the first is the fullest rate of the ladder."""
_POLICIES = (BASELINE, DEFAULTS, SHIPPED)


def picker_rows() -> Iterator[Row]:
    """Yield each point with both pickers; round robin has none and must be equal.

    Raises:
        CommandError: a run failed.
    """
    ensure_tools("laboratory")
    for name, stages in POINTS:
        for policy in policies(computed.known()[name].facts):
            if policy.name not in _POLICIES:
                continue
            job = computed.Job(name, policy, _SEED, stages)
            try:
                (measured,) = real.do(job)
            except (RigError, StuckError, OSError) as error:
                raise CommandError(f"{name}, {policy.name}: {error}") from error
            (modeled,) = computed.do(job)
            row = {
                "workload": name,
                "policy": policy.name,
                "rate_qps": stages[-1].rate,
                "real": _figures(measured),
                "modeled": _figures(modeled),
                "steady_error_percent": _error(measured, modeled, "steady_tok_s"),
                "goodput_error_points": round(
                    100 * (modeled["goodput_share"] - measured["goodput_share"]), 1
                ),
            }
            console.print(row)
            yield row


def _figures(row: Row) -> Row:
    return {
        "steady_tok_s": row["steady_tok_s"],
        "ttft_ms": row["ttft_ms"],
        "goodput_share": row["goodput_share"],
        "prefix_hit_rate": row["prefix_hit_rate"],
    }


def _error(measured: Row, modeled: Row, figure: str) -> float:
    return round(100 * (modeled[figure] / measured[figure] - 1), 1)
