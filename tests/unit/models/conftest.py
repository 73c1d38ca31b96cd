import pytest

from tests.unit.models import strict_storage, tiny
from workloads.engine.weights_manifest import Manifest, version_of
from workloads.transfer.push import push
from workloads.transfer.source import hash_files, scan
from workloads.transfer.store import Store
from workloads.transfer.versions import Home
from workloads.transfer.work import Crew, Silent

US, EU = Home("weights-us", "llama"), Home("weights-eu", "llama")
PART = 300_000


class Desk:
    """A model on this machine and two buckets, with a push of one call."""

    def __init__(self, cloud, store, folder):
        self.cloud, self.store, self.folder = cloud, store, folder
        self.progress = Silent()

    def files(self):
        return scan(self.folder)

    def manifest(self, version=None):
        files = tuple(hash_files(self.files(), Crew(2), Silent()))
        return Manifest("llama", version or version_of(files), "2026-11-22T10:00:00Z", files)

    def push(self, *homes, version=None, part_bytes=PART, **options):
        return push(
            self.store,
            homes or (US,),
            self.files(),
            self.manifest(version),
            Crew(3),
            self.progress,
            part_bytes=part_bytes,
            **options,
        )


@pytest.fixture
def cloud():
    return strict_storage.Cloud("weights-us", "weights-eu")


@pytest.fixture
def address(cloud):
    with strict_storage.serving(cloud) as url:
        yield url


@pytest.fixture
def desk(cloud, address, tmp_path):
    store = Store("acme", endpoint=address, workers=3)
    return Desk(cloud, store, tiny.write(tmp_path / "llama"))
