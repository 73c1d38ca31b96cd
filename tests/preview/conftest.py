import pytest

from scripts.engine import Engine
from twin import daemon, processes
from twin.paths import TwinPaths


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    paths = TwinPaths(tmp_path_factory.mktemp("preview") / "twin")
    yield Engine(paths)
    daemon.shut_down(paths)
    assert processes.running(paths) == {}
