"""Pulling, verifying, listing and removing versions."""

import pytest

from tests.unit.models import tiny
from tests.unit.models.conftest import EU, US
from workloads.engine.weights_manifest import MANIFEST_NAME, Manifest, check_folder
from workloads.transfer import remove
from workloads.transfer.errors import Refused, TransferError
from workloads.transfer.listing import versions
from workloads.transfer.pull import PARTIAL, pull
from workloads.transfer.verify import verify
from workloads.transfer.versions import read_current, set_current
from workloads.transfer.work import Crew, Silent

SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture
def pushed(desk):
    desk.push(US, EU, version="v1")
    return desk


def checked(desk, home=US, *, is_deep=False):
    return verify(desk.store, home, "v1", Crew(2), Silent(), is_deep=is_deep)


def damage(desk, content, *, keeps_checksum=False):
    held = desk.cloud.objects["weights-us"][f"llama/v1/{SHARD}"]
    before = held["crc32c"]
    desk.cloud.put("weights-us", f"llama/v1/{SHARD}", content, {})
    if keeps_checksum:
        desk.cloud.objects["weights-us"][f"llama/v1/{SHARD}"]["crc32c"] = before


def test_a_version_comes_back_as_it_was(pushed, tmp_path):
    folder = tmp_path / "back"
    received = pull(pushed.store, EU, pushed.manifest("v1"), folder, Crew(2), Silent())
    assert received == pushed.manifest("v1").size
    manifest = Manifest.parse((folder / MANIFEST_NAME).read_text())
    assert check_folder(folder, manifest) == []
    for file in pushed.files():
        assert (folder / file.name).read_bytes() == file.path.read_bytes()


def test_a_pull_that_was_cut_off_goes_on_where_it_was(pushed, tmp_path):
    content = (pushed.folder / SHARD).read_bytes()
    (tmp_path / (SHARD + PARTIAL)).write_bytes(content[:400_000])
    received = pull(pushed.store, US, pushed.manifest("v1"), tmp_path, Crew(2), Silent())
    assert received == pushed.manifest("v1").size - 400_000
    assert (tmp_path / SHARD).read_bytes() == content
    assert pull(pushed.store, US, pushed.manifest("v1"), tmp_path, Crew(2), Silent()) == 0


def test_a_pull_does_not_keep_what_arrives_with_another_checksum(pushed, tmp_path):
    size = (pushed.folder / SHARD).stat().st_size
    damage(pushed, b"x" * size)
    with pytest.raises(TransferError, match=f"{SHARD}: arrived with another checksum"):
        pull(pushed.store, US, pushed.manifest("v1"), tmp_path / "b", Crew(2), Silent())
    assert not (tmp_path / "b" / SHARD).exists()
    assert not (tmp_path / "b" / MANIFEST_NAME).exists()


def test_a_pull_over_another_file_is_refused(pushed, tmp_path):
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(Refused, match=r"config.json: must not be there, or be the version's file"):
        pull(pushed.store, US, pushed.manifest("v1"), tmp_path, Crew(2), Silent())
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["config.json"]


def test_a_whole_version_passes(pushed):
    assert checked(pushed) == checked(pushed, EU, is_deep=True) == []


def test_a_wrong_checksum_is_found(pushed):
    size = (pushed.folder / SHARD).stat().st_size
    good = pushed.cloud.objects["weights-us"][f"llama/v1/{SHARD}"]["crc32c"]
    damage(pushed, b"x" * size)
    (line,) = checked(pushed)
    assert line.startswith(f"gs://weights-us/llama/v1/{SHARD}: crc32c must be {good}, got ")


def test_reading_every_byte_finds_what_the_reported_checksum_hides(pushed):
    size = (pushed.folder / SHARD).stat().st_size
    damage(pushed, b"x" * size, keeps_checksum=True)
    assert checked(pushed) == []
    (line,) = checked(pushed, is_deep=True)
    assert line.startswith(f"gs://weights-us/llama/v1/{SHARD}: sha256 must be ")


def test_missing_short_and_foreign_objects_are_each_a_line(pushed):
    damage(pushed, b"short")
    del pushed.cloud.objects["weights-us"]["llama/v1/config.json"]
    pushed.cloud.put("weights-us", "llama/v1/notes.txt", b"x", {})
    size = (pushed.folder / SHARD).stat().st_size
    assert checked(pushed) == [
        "gs://weights-us/llama/v1/config.json: is missing",
        f"gs://weights-us/llama/v1/{SHARD}: size must be {size}, got 5",
        "gs://weights-us/llama/v1/notes.txt: is not in the manifest",
    ]
    assert [state.state for state in versions(pushed.store, US)] == ["damaged"]


def test_a_version_that_nobody_pushed_is_not_whole(desk):
    assert checked(desk) == ["gs://weights-us/llama/v1: does not exist"]


def test_the_list_has_versions_sizes_and_the_current_one_but_no_adapters(pushed):
    set_current(pushed.store, US, "v1")
    tiny.write(pushed.folder, seed=2)
    pushed.push(US, version="v2")
    pushed.cloud.put("weights-us", "llama/adapters/sql/adapter_model.safetensors", b"x", {})
    pushed.cloud.put("weights-us", "llama/v3/model.safetensors", b"1234", {})
    pushed.cloud.put("weights-us", "llama-2/v1/config.json", b"{}", {})
    found = [
        (each.version, each.state, each.size, each.is_current)
        for each in versions(pushed.store, US)
    ]
    size = pushed.manifest("v1").size
    assert found == [
        ("v1", "complete", size, True),
        ("v2", "complete", size, False),
        ("v3", "half-uploaded", 4, False),
    ]


def test_a_version_goes_with_its_manifest_first_and_the_others_stay(pushed):
    pushed.push(US, version="v2")
    set_current(pushed.store, US, "v1")
    calls = len(pushed.cloud.calls)
    assert remove.remove(pushed.store, US, "v1", Crew(2)) == 6
    deleted = [call for call in pushed.cloud.calls[calls:] if call.startswith("DELETE")]
    assert deleted[0].endswith("llama/_CURRENT.json")
    assert deleted[1].endswith(f"llama/v1/{MANIFEST_NAME}")
    assert read_current(pushed.store, US) is None
    assert [state.version for state in versions(pushed.store, US)] == ["v2"]


def test_what_is_left_of_a_push_goes_too(desk):
    desk.cloud.uploads_allowed = 4
    with pytest.raises(TransferError):
        desk.push(version="v1")
    assert remove.remove(desk.store, US, "v1", Crew(2)) >= 4
    assert desk.cloud.names("weights-us") == []
