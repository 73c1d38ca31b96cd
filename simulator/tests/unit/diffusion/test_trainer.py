"""The simulated training run: what it refuses, writes and resumes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from simulator.diffusion.trainer import step_seconds
from twin.host.paths import REPOSITORY
from workloads.diffusion.adapters import find
from workloads.diffusion.config import from_dict
from workloads.diffusion.training import read


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Return the settings of a run of 100 steps, of half a minute on Google's clock."""
    for name in ("folder", "images"):
        (tmp_path / name).mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "one.png")
    return {
        "adapter": str(tmp_path / "live" / "alice"),
        "folder": str(tmp_path / "folder"),
        "images": str(tmp_path / "images"),
        "prompt": "sks",
        "size": "512x512",
        "steps": 200,
        "work": str(tmp_path / "work"),
    }


def started(folder: Path, settings: dict[str, Any], speed: float) -> "subprocess.Popen[str]":
    file = folder / "train.json"
    file.write_text(json.dumps(settings))
    return subprocess.Popen(
        [sys.executable, "-m", "simulator.diffusion.trainer", str(file)],
        env={**os.environ, "GKE_INFERENCE_SIM_SPEED": str(speed)},
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_adapter_is_one_that_the_server_finds(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = started(tmp_path, settings, 10_000)
    assert (run.communicate(timeout=60)[1], run.returncode) == ("", 0)
    (file,) = Path(settings["adapter"]).iterdir()
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    ends = [each["data_offsets"][1] for name, each in header.items() if name[:2] != "__"]
    assert len(content) == 8 + size + max(ends)
    live = {"folder": "/m", "live_adapters": str(tmp_path / "live"), "live_rank": 16, "model": "m"}
    assert find(from_dict(live), "alice") is not None


def test_a_run_that_is_terminated_says_so_and_continues_at_its_step(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    (tmp_path / "train.json").write_text(json.dumps(settings))
    slow = 200 * step_seconds(read(tmp_path / "train.json")) / 20  # twenty seconds in all
    progress = Path(settings["work"]) / "progress.json"
    first = started(tmp_path, settings, slow)
    while not progress.exists():
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=30)
    assert first.returncode == 143
    reached = json.loads(progress.read_text())["step"]
    assert 0 < reached < 200
    assert not Path(settings["adapter"]).exists()
    again = started(tmp_path, {**settings, "steps": 200}, slow)
    time.sleep(0.1)
    assert json.loads(progress.read_text())["step"] >= reached
    again.terminate()
    again.communicate(timeout=30)
    assert json.loads(progress.read_text())["step"] >= reached


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rank": 5}, "rank: must be one of"),
        ({"images": "/nowhere"}, "images: must have an image"),
        ({"folder": "/nowhere"}, "folder: must exist, got /nowhere"),
        ({"unknown": 1}, "unknown: no such setting"),
    ],
)
def test_what_the_program_refuses_is_refused(
    tmp_path: Path, settings: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    run = started(tmp_path, {**settings, **change}, 10_000)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 2
    assert told in said
