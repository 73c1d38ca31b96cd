"""The programs of a test, ended after it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.diffusion.personal.world import World
from tests.diffusion.versions import push
from tests.diffusion.warm import WARM, environment
from tests.running.diffusion.conftest import Server
from twin.engines.stream_worker import personal_environment


@pytest.fixture
def server(tmp_path: Path, settings: dict[str, Any], compiled: str) -> Iterator[Any]:
    """Return an image server that reads live adapters from the shared folder."""
    del compiled  # it reads the programs
    adapters = tmp_path / "world" / "shared" / "flux" / "live-adapters"
    live = {"live_adapters": str(adapters), "live_rank": 4}
    (tmp_path / "server").mkdir()
    made = Server(
        tmp_path / "server",
        python=[WARM.python(), "-m", "diffusion"],
        environment=environment(),
        **{**settings, **live, "adapters": {}, "max_batch": 1},
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
