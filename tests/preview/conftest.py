from functools import cache

import pytest

from scripts.shared.engine import Engine
from scripts.shared.preview_states import preview_states
from tests.browser import chromium_or_skip
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths


@pytest.fixture(scope="package")
def engine(tmp_path_factory):
    paths = TwinPaths(tmp_path_factory.mktemp("preview") / "twin")
    engine = Engine(paths)
    yield engine
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


@pytest.fixture(scope="package")
def browser():
    """Path of Chromium."""
    return chromium_or_skip()


@pytest.fixture(scope="package")
def states(engine):
    """What a first `up` of a stack would make, previewed once, with the policies; read only."""
    return cache(lambda stack: preview_states(engine, stack, "--policy-pack", "policies"))
