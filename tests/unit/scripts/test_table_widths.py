"""Each command's table as people meet it: terminals of 80, 100 and 120 columns."""

from collections.abc import Callable
from typing import Any

import pytest
import typer

from infra.plan import resolve
from infra.reading.load import read
from planner.amount import Amount
from policies.framework.finding import Finding, Verdict
from scripts.bench import confirm as bench_confirm
from scripts.bench import routing as bench_routing
from scripts.check import check, preflight
from scripts.check.preflight_checks import lines
from scripts.images import command as images
from scripts.images import listing as images_list
from scripts.operate import trace
from scripts.plan import coldstart, cost, quota, replay, unit_costs
from scripts.plan import show as plan_show
from scripts.plan.plan import plan
from scripts.shared import replica_status
from scripts.shared.placements import Placement
from scripts.terminal.tables import Listing
from simulator.laboratory.bounds import Check
from tests.unit.scripts.test_tables import drawn

_LAB: dict[str, Any] = {
    "workload": "shared_prefixes", "rate_qps": 12.5, "policy": "prefix-affine-with-queue",
    "seed": 1, "throughput_tok_s": 12345.0, "tpot_ms": {"p50": 123.0, "p99": 1234.0},
    "ttft_ms": {"p50": 12345.0, "p95": 12345.0, "p99": 12345.0}, "goodput": 0.5,
    "goodput_share": 0.5, "usd_per_mtok": 1.25, "prefix_hit_rate": 0.5, "lost": 0,
    "replicas": 100, "preemptions": 12345, "requests": 10000, "answered": 9999,
    "delay_p99_ms": 12.0,
}  # fmt: skip
_PLACEMENT = Placement(
    "qwen3-embedding-0.6b", "inference-staging-asia-southeast1",
    "qwen3-embedding-0.6b-gpu-7c9f8b6d5-x2x4z", "ContainerCreating",
    "nvidia-h100-mega-80gb a3-megagpu-8g flex-start", "asia-southeast1-b",
    Amount(1234.5),
)  # fmt: skip
_FINDING = Finding(
    Verdict.BROKEN, "HorizontalPodAutoscaler models/llama-3.1-8b", "spec.metrics[0]",
    "vllm:num_requests_waiting", "the engine of this version has no such metric " * 3,
    "name one of those that it has",
    "build/prod/manifests/inference-prod-us-central1/models/llama-3.1-8b.yaml",
    "metrics-exist", "inference-prod-us-central1",
)  # fmt: skip


def _waterfall() -> None:
    span = {"name": "llm request of the gateway", "service": "inference-gateway", "start": 0,
            "end": 9e9, "attributes": {}}  # fmt: skip
    found = [trace.Line(depth, span, 0.1 * depth, 0.5) for depth in range(8)]
    trace.print_table(trace._table(found, 80))


def _bench() -> None:
    checks = [Check("throughput", "of all policies in all workloads", 1.5, 1.4)]
    bench_routing._print([_LAB], checks)
    by = {"prefix-affine-with-queue": _LAB, "round-robin": _LAB}
    bench_confirm._print({
        "workload": "shared_prefixes", "rate_qps": 1, "inference_perf": by, "laboratory": by,
        "shipped_over_round_robin": {}, "valid": True,
    })  # fmt: skip


def _quota() -> None:
    with pytest.raises(typer.Exit):
        quota.quota("prod", scenario="quota-short", explain=True)


_COMMANDS: dict[str, Callable[[], object]] = {
    "bench": _bench,
    "check": lambda: check.print_table(check._table([_FINDING] * 2)),
    "check --list": lambda: check.check(list_rules=True),
    "coldstart": lambda: coldstart.coldstart("prod"),
    "cost": lambda: cost.cost("prod"),
    "images list": lambda: images.list_images("prod"),
    "plan": lambda: plan("llama-3.3-70b"),
    "plan of pictures": lambda: plan("flux.1-schnell"),
    "preflight": lambda: preflight._show(list(lines(resolve(read("prod"))))),
    "quota": _quota,
    "replay": lambda: replay._print([_LAB], "a trace"),
    "status": lambda: replica_status.print_table(replica_status.replica_table([_PLACEMENT])),
    "trace": _waterfall,
}
_MODULES = (
    bench_confirm, bench_routing, check, coldstart, cost, images_list, plan_show, preflight, quota,
    replay, replica_status, trace, unit_costs,
)  # fmt: skip


@pytest.mark.parametrize("name", _COMMANDS)
def test_a_commands_table_is_whole_and_fits_at_80_100_and_120_columns(
    name, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    found: list[Listing] = []
    for module in _MODULES:
        monkeypatch.setattr(module, "print_table", found.append)
    _COMMANDS[name]()
    assert found
    for table in found:
        words = {word for row in table._rows for cell in row.cells for word in cell.plain.split()}
        for width in (80, 100, 120):
            shown = drawn(table, width)
            assert "…" not in shown
            assert words <= set(shown.split())
            wide = [line for line in shown.splitlines() if len(line) > width]
            assert [line for line in wide if len(line.split()) > 1] == []
