"""Tables that modules print, looked at in terminals of 80, 100 and 120 columns."""

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest

from scripts.terminal.tables import Listing, print_table
from tests.unit.scripts.test_tables import drawn
from twin.host.paths import REPOSITORY

LABORATORY_ROW: dict[str, Any] = {
    "workload": "shared_prefixes", "rate_qps": 12.5, "policy": "prefix-affine-with-queue",
    "seed": 1, "throughput_tok_s": 12345.0, "tpot_ms": {"p50": 123.0, "p99": 1234.0},
    "ttft_ms": {"p50": 12345.0, "p95": 12345.0, "p99": 12345.0}, "goodput": 0.5,
    "goodput_share": 0.5, "usd_per_mtok": 1.25, "prefix_hit_rate": 0.5, "lost": 0,
    "replicas": 100, "preemptions": 12345, "requests": 10000, "answered": 9999,
    "delay_p99_ms": 12.0,
}  # fmt: skip
"""Figures of a simulated run, as wide as they become."""


def printing(folder: str) -> dict[str, ModuleType]:
    """Return every module of a folder that prints tables, by its name without `scripts`."""
    files = [
        file
        for file in (REPOSITORY / folder).rglob("*.py")
        if "tests" not in file.relative_to(REPOSITORY).parts
        and "print_table(" in file.read_text()
        and file.name != "tables.py"
    ]
    names = sorted(".".join(file.relative_to(REPOSITORY).with_suffix("").parts) for file in files)
    found = {name.removeprefix("scripts."): importlib.import_module(name) for name in names}
    return {name: module for name, module in found.items() if hasattr(module, "print_table")}


def check_widths(
    modules: Mapping[str, ModuleType],
    names: str,
    draw: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that what a function prints is whole and fits.

    Args:
        modules: Every module that could print.
        names: Those that print, separated by spaces.
        draw: Function that makes them print.
        monkeypatch: That of the test.
    """
    found: dict[str, list[Listing]] = {}
    for name, module in modules.items():
        assert module.print_table is print_table
        monkeypatch.setattr(module, "print_table", found.setdefault(name, []).append)
    draw()
    assert {name for name, tables in found.items() if tables} == set(names.split())
    for table in (table for tables in found.values() for table in tables):
        words = {word for row in table._rows for cell in row.cells for word in cell.plain.split()}
        for width in (80, 100, 120):
            shown = drawn(table, width)
            assert "…" not in shown
            assert words <= set(shown.split())
            wide = [line for line in shown.splitlines() if len(line) > width]
            assert [line for line in wide if len(line.split()) > 1] == []
