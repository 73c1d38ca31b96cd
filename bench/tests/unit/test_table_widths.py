"""Each benchmark's table as people meet it: terminals of 80, 100 and 120 columns."""

from collections.abc import Callable

import pytest

from bench import confirm, fairness, routing
from bench.laboratory.bounds import Check
from tests.unit.scripts.table_widths import LABORATORY_ROW, check_widths, printing


def _routing() -> None:
    routing._print(
        [LABORATORY_ROW], [Check("throughput", "of all policies in all workloads", 1.5, 1.4)]
    )


def _confirm() -> None:
    by = {"prefix-affine-with-queue": LABORATORY_ROW, "round-robin": LABORATORY_ROW}
    confirm._print({
        "workload": "shared_prefixes", "rate_qps": 1, "inference_perf": by, "laboratory": by,
        "shipped_over_round_robin": {}, "valid": True,
    })  # fmt: skip


def _fairness() -> None:
    client = {"sent": 12345, "answered": 12340, "ttft_ms": {"p50": 12345.0, "p95": 123456.0}}
    row = {"queues": "without", "factor": 10, "replicas_lag_ms": 1234.5}
    clients_of_row = {"quiet": client, "loud": client}
    fairness._print({
        "rows": [{**row, "clients": clients_of_row}] * 2, "quiet_p95_ratio": {"with": 1.1},
        "valid": True, "pass": True, "bound": 1.2,
    })  # fmt: skip


_TABLES: tuple[tuple[str, Callable[[], object]], ...] = (
    ("bench.confirm", _confirm),
    ("bench.fairness", _fairness),
    ("bench.routing", _routing),
)
"""Modules of benchmarks that print a table, and what makes each of them do so."""


def test_every_module_that_prints_a_table_is_tried() -> None:
    assert set(printing("bench")) == {names for names, _ in _TABLES}


@pytest.mark.parametrize(("names", "draw"), _TABLES)
def test_a_benchmarks_table_is_whole_and_fits_at_80_100_and_120_columns(
    names, draw, monkeypatch
) -> None:
    check_widths(printing("bench"), names, draw, monkeypatch)
