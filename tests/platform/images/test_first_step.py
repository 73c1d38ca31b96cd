"""The first step of `prod` with the real engine: its images before anything that runs them."""

from collections import Counter

import pytest

from infra.plan import resolve
from infra.reading.built import UNBUILT
from infra.reading.load import read
from scripts.backend.twin_cloud import twin_cloud
from scripts.images import bootstrap, prepare
from scripts.images.registry import TwinRegistry
from scripts.operate.refusals import refuse_unbuilt
from scripts.shared.engine import Engine
from scripts.terminal.console import CheckFailedError
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.world.capacity import World
from twin.world.store import list_resources

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
SOURCE = (
    "projects/acme-inference-prod/locations/us-central1/connections/forge/repositories/platform"
)


@pytest.fixture
def engine(tmp_path):
    engine = Engine(TwinPaths(tmp_path / "twin"))
    World(build_repositories=(SOURCE,)).save(engine.paths.capacity_file)
    engine.ensure_stack("prod")
    yield engine
    daemon.shut_down(engine.paths)
    assert processes.running(engine.paths) == {}


def made(engine) -> Counter[str]:
    return Counter(each.type.rpartition(":")[2] for each in list_resources(engine.paths))


def test_up_is_refused_and_the_first_step_is_not(engine):
    refused = engine.run(
        "up", "--yes", "--skip-preview", "-s", "prod", capture=True, environment={UNBUILT: ""}
    )
    assert refused.returncode
    assert "images.digests must have body-router, callout" in refused.stdout + refused.stderr
    assert made(engine) == {}

    bootstrap.create(engine, resolve(read("prod")), "prod", yes=True)
    first = made(engine)
    assert (first["Repository"], first["Trigger"], first["Account"]) == (3, 3, 1)
    assert not {"Cluster", "Network"} & set(first)

    with pytest.raises(CheckFailedError, match="`gke-inference images prepare --stack prod`"):
        refuse_unbuilt("prod", engine.paths)
    platform, said = read("prod"), []
    cloud = twin_cloud(platform.project, platform.project_number, engine.paths)
    place = prepare.Place(
        lambda: engine, lambda: cloud, TwinRegistry(engine.paths), lambda: pytest.fail("no archive")
    )
    absent = prepare.check(resolve(platform).images, is_local=False)
    digests = prepare.prepare(
        place, "prod", resolve(platform), absent, "abc", said.append, yes=True, is_local=False
    )
    assert sorted(digests) == ["body-router", "callout"]
    assert said[2:4] == ["body-router: built", "callout: built"]  # by their triggers
    refuse_unbuilt("prod", engine.paths)
    assert made(engine) == first  # again: nothing more
