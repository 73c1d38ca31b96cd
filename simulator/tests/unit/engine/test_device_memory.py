"""What an engine holds in the memory of its accelerators, while it starts and afterwards."""

import asyncio
import json
from pathlib import Path

import pytest

from simulator.engine.device_memory import MEMORY_FILE
from simulator.engine.settings import RUNTIME_MEMORY_GB
from simulator.server import startup
from simulator.tests.unit.engine.support import deployment


def test_an_engine_holds_its_weights_and_then_the_share_of_the_memory_that_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.accelerator.json"
    made = deployment("--gpu-memory-utilization=0.9")
    seen: list[int] = []

    def stages(*_: object, **__: object) -> dict[str, float]:
        return {"initialise": 0.0, "weights": 0.0, "compile": 0.0}

    async def sleep(_: float) -> None:
        seen.append(json.loads(file.read_text())["used"])

    monkeypatch.setattr(startup, "stages", stages)
    monkeypatch.setattr(startup.asyncio, "sleep", sleep)
    asyncio.run(startup.start_up(made, {MEMORY_FILE: str(file)}))
    held = json.loads(file.read_text())
    weights = made.shape.weights_gb + RUNTIME_MEMORY_GB["gpu"]
    assert seen == [0, 0, pytest.approx(weights * 1e9, abs=1)]
    assert (held["make"], held["chips"]) == ("nvidia", 1)
    assert held["used"] == pytest.approx(0.9 * held["total"], rel=0.001)


def test_an_engine_on_processors_holds_no_memory_of_accelerators(tmp_path: Path) -> None:
    file = tmp_path / "server.accelerator.json"
    made = deployment(model="qwen3-0.6b", GKE_INFERENCE_SIM_ACCELERATOR="cpu")
    asyncio.run(startup.start_up(made, {MEMORY_FILE: str(file)}))
    assert not file.exists()
