from collections.abc import Iterator

import pytest

from scripts.shared.engine import Engine
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engine of a twin that these tests leave as they found it, with the SDKs loaded."""
    paths = TwinPaths(tmp_path_factory.mktemp("examples") / "twin")
    engine = Engine(paths)
    yield engine
    daemon.shut_down(paths)
    assert processes.running(paths) == {}
