"""Processes of containers: how they ended is known, whenever they end."""

import sys
import time
from pathlib import Path

import pytest

from twin.cluster.agent import records

BRIEF = [sys.executable, "-S", "-c", "import time; time.sleep(0.3)"]


def test_a_process_that_ends_while_it_is_looked_at_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = records.start(BRIEF, {}, tmp_path / "log", tmp_path / "process.json", 0)
    started_at = records.started_at

    def as_it_ends(pid: int) -> str | None:
        while started_at(pid) is not None:
            time.sleep(0.01)
        return None

    monkeypatch.setattr(records, "started_at", as_it_ends)
    assert not record.alive
    assert record.exit_code() == 0
