"""Weights go to the twin's object storage by the code that sends them to Google's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs
from workloads.engine.weights_manifest import Manifest, check_folder, version_of
from workloads.transfer.errors import TransferError
from workloads.transfer.pull import pull
from workloads.transfer.push import PART_BYTES, push
from workloads.transfer.source import hash_files, scan
from workloads.transfer.store import Store
from workloads.transfer.verify import verify
from workloads.transfer.versions import Home, look, read_current, set_current
from workloads.transfer.work import Crew, Silent

pytestmark = pytest.mark.needs_tools
US, EU = Home("weights-us", "llama"), Home("weights-eu", "llama")
PART = 100_000
PUSH = f"""
import sys
from pathlib import Path
from workloads.engine.weights_manifest import Manifest, version_of
from workloads.transfer import push, source, store, versions, work
files, crew = source.scan(Path(sys.argv[2])), work.Crew(2)
entries = tuple(source.hash_files(files, crew, work.Silent()))
manifest = Manifest("llama", version_of(entries), "2026-11-22T10:00:00Z", entries)
there = store.Store("acme", endpoint=sys.argv[1])
home = versions.Home("weights-us", "llama")
push.push(there, [home], files, manifest, crew, work.Silent(), part_bytes={PART})
"""


@pytest.fixture
def paths(tmp_path):
    here = TwinPaths(tmp_path / "twin")
    gcs.url(here)
    for home in (US, EU):
        gcs.create_bucket(here, home.bucket, "acme")
    yield here
    processes.stop(here, gcs.NAME)


@pytest.fixture
def folder(tmp_path):
    here = tmp_path / "model"
    here.mkdir()
    (here / "config.json").write_text("{}")
    (here / "weights.bin").write_bytes(os.urandom(12 * 2**20))
    return here


def manifest_of(folder: Path) -> Manifest:
    entries = tuple(hash_files(scan(folder), Crew(2), Silent()))
    return Manifest("llama", version_of(entries), "2026-11-22T10:00:00Z", entries)


def send(paths: TwinPaths, folder: Path, part_bytes: int = PART_BYTES):
    store = Store("acme", endpoint=gcs.url(paths))
    quiet = Silent()
    return push(
        store, [US, EU], scan(folder), manifest_of(folder), Crew(4), quiet, part_bytes=part_bytes
    )


def test_a_model_goes_to_two_regions_and_back(paths, folder, tmp_path):
    sent = send(paths, folder, 2**20)
    manifest = manifest_of(folder)
    assert (sent.sent, sent.copied) == (manifest.size, manifest.size)
    store = Store("acme", endpoint=gcs.url(paths))
    for home in (US, EU):
        assert verify(store, home, manifest.version, Crew(2), Silent(), is_deep=True) == []
        set_current(store, home, manifest.version)
        assert read_current(store, home) == manifest.version
    pull(store, EU, manifest, tmp_path / "back", Crew(2), Silent())
    assert check_folder(tmp_path / "back", manifest) == []
    assert send(paths, folder).sent == 0


def size_of(store: Store) -> int:
    return sum(stored.size for stored in store.objects("weights-us", "llama/").values())


def test_a_killed_push_continues_and_sends_no_part_twice(paths, folder):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    argv = [sys.executable, "-c", PUSH, gcs.url(paths), str(folder)]
    process = subprocess.Popen(argv, cwd=REPOSITORY, env=environment)
    store = Store("acme", endpoint=gcs.url(paths))
    version = manifest_of(folder).version
    limit = time.monotonic() + 60
    while len(store.objects("weights-us", "llama/")) < 20 and time.monotonic() < limit:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # what has arrived is whole: the server writes an object when it has all of it, which of a
    # request that came before the kill may be a moment after it
    arrived, before = size_of(store), -1
    while arrived != before:
        time.sleep(0.5)
        arrived, before = size_of(store), arrived
    assert arrived >= PART
    assert look(store, US, version).manifest is None
    again = send(paths, folder, PART)
    assert again.sent == manifest_of(folder).size - arrived
    assert look(store, US, version).is_complete


def test_a_bucket_that_nobody_made_is_not_made_by_a_push(paths, folder):
    gcs.delete_bucket(paths, "weights-eu")
    with pytest.raises(TransferError, match=r"^gs://weights-eu: does not exist$"):
        send(paths, folder)
    assert not gcs.has_bucket(paths, "weights-eu")
