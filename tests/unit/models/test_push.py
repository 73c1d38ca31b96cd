"""A push: what it sends, what it skips, and what it rejects before sending anything."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.unit.models import tiny
from tests.unit.models.conftest import EU, PART, US
from twin.host.paths import REPOSITORY
from workloads.engine.weights_manifest import MANIFEST_NAME, Manifest
from workloads.transfer.errors import Refused, TransferError
from workloads.transfer.listing import versions
from workloads.transfer.store import Store
from workloads.transfer.versions import look, read_current, set_current


def whole_size(desk):
    return sum(file.size for file in desk.files())


def test_a_model_arrives_byte_by_byte_with_its_manifest_last(desk):
    sent = desk.push()
    version = desk.manifest().version
    assert sent.sent == desk.cloud.bytes_uploaded() == whole_size(desk)
    for file in desk.files():
        name = f"llama/{version}/{file.name}"
        assert desk.cloud.objects["weights-us"][name]["content"] == file.path.read_bytes()
    manifest = f"llama/{version}/{MANIFEST_NAME}"
    assert Manifest.parse(desk.cloud.text("weights-us", manifest)).files == desk.manifest().files
    last = max(held["generation"] for held in desk.cloud.objects["weights-us"].values())
    assert desk.cloud.objects["weights-us"][manifest]["generation"] == last


def test_hidden_files_and_parts_are_not_left_in_the_bucket(desk):
    desk.push()
    version = desk.manifest().version
    assert desk.cloud.names("weights-us") == sorted(
        f"llama/{version}/{name}"
        for name in [
            MANIFEST_NAME,
            "config.json",
            "extra/tokenizer.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        ]
    )


def test_the_same_push_again_sends_nothing(desk):
    desk.push()
    before = desk.cloud.bytes_uploaded()
    again = desk.push()
    assert (again.sent, again.buckets) == (0, [])
    assert desk.cloud.bytes_uploaded() == before


def test_a_file_of_more_than_32_parts_is_joined_in_two_steps(desk):
    desk.push(part_bytes=20_000)
    version = desk.manifest().version
    name = "model-00001-of-00002.safetensors"
    content = desk.cloud.objects["weights-us"][f"llama/{version}/{name}"]["content"]
    assert content == (desk.folder / name).read_bytes()
    assert not [each for each in desk.cloud.names("weights-us") if "_parts" in each]


def test_a_push_that_was_cut_off_sends_only_what_is_missing(desk):
    desk.cloud.uploads_allowed = 4
    with pytest.raises(TransferError, match="no permission: The test ends this run here"):
        desk.push()
    arrived = desk.cloud.bytes_uploaded()
    assert 0 < arrived < whole_size(desk)
    desk.cloud.uploads_allowed = None
    again = desk.push()
    assert arrived + again.sent == whole_size(desk)
    assert look(desk.store, US, desk.manifest().version).is_complete


def test_a_push_that_was_cut_off_has_no_manifest_and_is_listed_as_half_uploaded(desk):
    desk.cloud.uploads_allowed = 4
    with pytest.raises(TransferError):
        desk.push()
    assert not [name for name in desk.cloud.names("weights-us") if name.endswith(MANIFEST_NAME)]
    (state,) = versions(desk.store, US)
    assert (state.state, state.expected_size) == ("half-uploaded", None)
    assert state.size == desk.cloud.bytes_uploaded()


def test_a_killed_process_leaves_no_manifest_and_the_next_one_continues(desk, address):
    desk.cloud.slow_after = 3
    program = (
        "import sys; from pathlib import Path\n"
        "from workloads.engine.weights_manifest import Manifest, version_of\n"
        "from workloads.transfer import push, source, store, versions, work\n"
        "files = source.scan(Path(sys.argv[2])); crew = work.Crew(2); quiet = work.Silent()\n"
        "entries = tuple(source.hash_files(files, crew, quiet))\n"
        "manifest = Manifest('llama', version_of(entries), '2026-11-22T10:00:00Z', entries)\n"
        "homes = [versions.Home('weights-us', 'llama')]\n"
        "there = store.Store('acme', endpoint=sys.argv[1])\n"
        f"push.push(there, homes, files, manifest, crew, quiet, part_bytes={PART})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, address, str(desk.folder)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    limit = time.monotonic() + 60
    # three uploads are done and both workers hang in the next: nothing is on its way to the server
    while desk.cloud.begun < 5 and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    arrived = desk.cloud.bytes_uploaded()
    assert not [name for name in desk.cloud.names("weights-us") if name.endswith(MANIFEST_NAME)]
    desk.cloud.slow_after = None
    again = desk.push()
    assert 0 < again.sent == whole_size(desk) - arrived
    assert look(desk.store, US, desk.manifest().version).is_complete


def test_a_part_that_is_not_of_this_file_is_sent_again(desk):
    desk.cloud.uploads_allowed = 4
    with pytest.raises(TransferError):
        desk.push()
    desk.cloud.uploads_allowed = None
    part = next(name for name in desk.cloud.names("weights-us") if "_parts" in name)
    size = len(desk.cloud.objects["weights-us"][part]["content"])
    desk.cloud.put("weights-us", part, b"x" * size, {})
    desk.push()
    assert look(desk.store, US, desk.manifest().version).is_complete


def test_the_second_region_is_filled_inside_cloud_storage(desk):
    sent = desk.push(US, EU)
    size = whole_size(desk)
    assert (sent.sent, sent.copied) == (size, size)
    assert {bucket for bucket, _, _ in desk.cloud.uploaded} == {"weights-us"}
    version = desk.manifest().version
    assert desk.cloud.names("weights-eu") == desk.cloud.names("weights-us")
    manifest = f"llama/{version}/{MANIFEST_NAME}"
    assert desk.cloud.text("weights-eu", manifest) == desk.cloud.text("weights-us", manifest)


def test_a_direct_push_sends_to_each_region(desk):
    sent = desk.push(US, EU, is_direct=True)
    assert (sent.sent, sent.copied) == (2 * whole_size(desk), 0)
    assert desk.cloud.copies == []


def test_a_new_region_gets_a_copy_of_what_another_one_has(desk):
    desk.push(US)
    sent = desk.push(EU, US)
    assert (sent.sent, sent.copied, sent.buckets) == (0, whole_size(desk), ["weights-eu"])


def test_another_content_under_the_name_of_a_version_is_refused_before_anything_is_sent(desk):
    desk.push(version="v1")
    before = dict(desk.cloud.objects["weights-us"])
    calls = len(desk.cloud.calls)
    tiny.write(desk.folder, seed=2)
    with pytest.raises(Refused, match="gs://weights-us/llama/v1: versions never change"):
        desk.push(EU, US, version="v1")
    assert desk.cloud.objects == {"weights-us": before, "weights-eu": {}}
    assert all(call.startswith("GET") for call in desk.cloud.calls[calls:])


def test_what_another_push_left_under_that_name_is_refused_too(desk):
    desk.cloud.uploads_allowed = 4
    with pytest.raises(TransferError):
        desk.push(version="v1", part_bytes=2**30)
    desk.cloud.uploads_allowed = None
    before = desk.cloud.bytes_uploaded()
    tiny.write(desk.folder, seed=2)
    with pytest.raises(Refused, match="run `gke-inference models rm` for version v1 first"):
        desk.push(version="v1")
    assert desk.cloud.bytes_uploaded() == before


def test_a_version_that_lost_a_file_gets_it_back(desk):
    desk.push()
    name = f"llama/{desk.manifest().version}/config.json"
    del desk.cloud.objects["weights-us"][name]
    sent = desk.push()
    assert sent.sent == (desk.folder / "config.json").stat().st_size
    assert look(desk.store, US, desk.manifest().version).is_complete


def test_a_bucket_that_does_not_exist_is_named_before_anything_is_sent(desk):
    del desk.cloud.objects["weights-eu"]
    with pytest.raises(TransferError, match=r"^gs://weights-eu: does not exist$"):
        desk.push(US, EU)
    assert desk.cloud.bytes_uploaded() == 0


def test_a_file_that_changes_between_hash_and_upload_never_becomes_a_version(desk, monkeypatch):
    manifest = desk.manifest()
    path = desk.folder / "config.json"
    path.write_text(path.read_text().replace("llama", "gemma"))
    monkeypatch.setattr(desk, "manifest", lambda version=None: manifest)
    with pytest.raises(TransferError, match=r"config.json: changed while it was sent; push again"):
        desk.push()
    assert f"llama/{manifest.version}/config.json" not in desk.cloud.names("weights-us")
    assert f"llama/{manifest.version}/{MANIFEST_NAME}" not in desk.cloud.names("weights-us")


def test_two_pushes_of_one_version_at_a_time_agree(desk):
    upload = Store.upload
    raced = []

    def late(self, bucket, name, stream, size, *, is_final):
        if is_final and not raced:  # the other push wins by a moment
            raced.append(name)
            self.upload(bucket, name, stream, size, is_final=True)
            stream.seek(0)
        return upload(self, bucket, name, stream, size, is_final=is_final)

    Store.upload = late
    try:
        desk.push()
    finally:
        Store.upload = upload
    assert raced
    assert look(desk.store, US, desk.manifest().version).is_complete


def test_only_a_complete_version_can_be_current(desk):
    with pytest.raises(Refused, match="gs://weights-us/llama/v9: must be complete before it is"):
        set_current(desk.store, US, "v9")
    desk.push(version="v1")
    assert set_current(desk.store, US, "v1")
    assert not set_current(desk.store, US, "v1")
    assert read_current(desk.store, US) == "v1"
    pointer = json.loads(desk.cloud.text("weights-us", "llama/_CURRENT.json"))
    assert pointer == {"format": 1, "version": "v1"}
