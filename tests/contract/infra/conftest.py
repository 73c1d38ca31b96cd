"""Fixtures of the stacks: a stand-in for the engine and the cloud, and what stacks become there."""

import asyncio
import os

import pytest

from tests.contract.infra.cloud import CloudRecorder, Deployed, Deployments
from tests.contract.recorder import install

_DEPLOYING = {"cloud", "deployed"}
_IN_CONTRACT_TIER = {"test_program.py"}
"""Files whose deployments are also in `make test-contract`: the environments of `stacks/`."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what deploys a whole stack, which takes most of the time of the contract tests."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & _DEPLOYING and item.path.name not in _IN_CONTRACT_TIER:
        item.add_marker(pytest.mark.whole_stack)


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
