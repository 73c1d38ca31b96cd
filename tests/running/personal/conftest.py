"""The programs of a test, ended after it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.diffusion.conftest import SIZE, pytest_collection_modifyitems, run, warm
from tests.diffusion.versions import push
from tests.diffusion.warm import WARM, environment
from tests.running.diffusion.conftest import Server
from tests.running.personal.world import World
from twin.engines.stream_worker import personal_environment

__all__ = ["pytest_collection_modifyitems", "warm"]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return the folder of a tiny model."""
    folder = tmp_path / "tiny"
    run("-m", "diffusion", "tiny", folder)
    return folder


@pytest.fixture
def server(tmp_path: Path, tiny: Path) -> Iterator[Any]:
    """Return an image server that reads live adapters from the shared folder."""
    (tmp_path / "server").mkdir()
    made = Server(
        tmp_path / "server",
        python=[WARM.python(), "-m", "diffusion"],
        environment=environment(),
        folder=str(tiny),
        live_adapters=str(tmp_path / "world" / "shared" / "flux" / "live-adapters"),
        live_rank=4,
        max_batch=1,
        pipeline=".xla.pipeline:load",
        sizes=[f"{SIZE}x{SIZE}"],
        steps=2,
        text_tokens=16,
    )
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def world(tmp_path: Path, tiny: Path, server: Any) -> Iterator[World]:
    """Return everything else."""
    personal_environment().install(lambda _: None)
    (tmp_path / "world").mkdir()
    push(tmp_path / "models", tiny, "v1")
    made = World(tmp_path / "world", tmp_path / "models", f"http://127.0.0.1:{server.port}")
    try:
        yield made
    finally:
        made.stop()
