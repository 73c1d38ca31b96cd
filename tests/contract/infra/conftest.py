"""Fixtures of the stacks: a stand-in for the engine and the cloud, and what stacks become there."""

import asyncio
import os

import pytest

from tests.contract.infra.cloud import CloudRecorder, Deployed, Deployments
from tests.contract.recorder import install


@pytest.fixture
def cloud(engine_loop: asyncio.AbstractEventLoop) -> CloudRecorder:
    """A fresh engine stand-in with a cloud behind it."""
    return install(CloudRecorder(), engine_loop)


@pytest.fixture(scope="session")
def deployed(
    engine_loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory
) -> Deployed:
    """Returns what a stack registers; a stack is deployed once, and its records are for reading."""
    asyncio.set_event_loop(engine_loop)
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent  # the workers' common one
    return Deployments(folder, engine_loop).of
