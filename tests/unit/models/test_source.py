"""Model folders on this machine, and those rejected before anything is sent."""

import pytest

from tests.unit.models import tiny
from workloads.transfer.errors import Refused
from workloads.transfer.source import HashCache, hash_files, scan, snapshot
from workloads.transfer.work import Crew, Silent


@pytest.fixture
def model(tmp_path):
    return tiny.write(tmp_path / "model", sizes=(2000, 1000))


def test_a_snapshot_of_the_hubs_cache_is_made_of_links_that_are_followed(tmp_path, model):
    cache = tmp_path / "models--acme--llama"
    here = cache / "snapshots" / "abc"
    here.mkdir(parents=True)
    (cache / "snapshots" / "old").mkdir()
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    for file in model.iterdir():
        (here / file.name).symlink_to(file)
    found = scan(snapshot(cache))
    assert [file.name for file in found] == [file.name for file in scan(model)]
    assert found[0].size == (model / "config.json").stat().st_size


def test_files_are_left_out_by_pattern(model):
    names = [file.name for file in scan(model, ["extra/*", "*.md"])]
    assert names == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]


def refused(folder, words):
    with pytest.raises(Refused) as error:
        scan(snapshot(folder))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    refused(tmp_path / "none", "SOURCE: must be a folder with a model, got")


def test_an_empty_folder_is_refused(tmp_path):
    refused(tmp_path, "which is empty")


def test_a_download_that_was_cut_short_is_refused(model):
    file = model / "model-00001-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    refused(model, "model-00001-of-00002.safetensors: must have 2080 bytes by its header, got 2070")


def test_a_file_that_is_no_safetensors_is_refused(model):
    (model / "model-00001-of-00002.safetensors").write_bytes(b"<html>" * 40)
    refused(model, "model-00001-of-00002.safetensors: must be a whole safetensors file")


def test_a_shard_that_the_index_names_and_nobody_has_is_refused(model):
    (model / "model-00002-of-00002.safetensors").unlink()
    refused(model, "model-00002-of-00002.safetensors: must be there, as model.safetensors.index")


def test_a_link_to_nothing_is_refused(model):
    (model / "more.json").symlink_to(model / "gone.json")
    refused(model, "more.json: must be a file or a link to one")


def test_what_was_hashed_before_is_not_read_again_until_it_changes(model, tmp_path):
    cache = tmp_path / "hashes.json"
    files = scan(model)
    first, again = Silent(), Silent()
    entries = hash_files(files, Crew(2), first, HashCache(cache))
    assert hash_files(files, Crew(2), again, HashCache(cache)) == entries
    assert first.stages["hash"] == sum(file.size for file in files)
    assert again.stages["hash"] == 0
    (model / "config.json").write_text('{"model_type": "gemma"}')
    changed = hash_files(scan(model), Crew(2), again, HashCache(cache))
    assert changed[0] != entries[0]
    assert changed[1:] == entries[1:]
