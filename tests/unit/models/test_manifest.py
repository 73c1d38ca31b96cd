"""The format that writers and readers of weights share."""

import json

import pytest

from workloads.engine.weights_manifest import (
    Current,
    FileEntry,
    Manifest,
    check_folder,
    split,
    version_of,
)

FILES = (
    FileEntry("config.json", 2, "AAAAAA==", "a" * 64),
    FileEntry("sub/model.safetensors", 5, "+/+/+w==", "b" * 64),
)
MANIFEST = Manifest("llama", "v1", "2026-11-22T10:00:00Z", FILES)


def changed(**change):
    return json.dumps({**json.loads(MANIFEST.dump()), **change})


def with_file(**change):
    files = json.loads(MANIFEST.dump())["files"]
    return changed(files=[{**files[0], **change}, files[1]])


def test_a_manifest_is_read_as_it_was_written():
    assert Manifest.parse(MANIFEST.dump()) == MANIFEST
    assert MANIFEST.size == 7


def test_the_default_version_follows_from_the_files_alone_in_any_order():
    assert version_of(FILES) == version_of(reversed(FILES)) == "c40725c36c96"
    assert version_of(FILES[:1]) != version_of(FILES)


BROKEN = {
    "no JSON": ("{", "manifest: must be JSON, got '{'"),
    "a list": ("[]", "manifest: must be a mapping of fields, got []"),
    "another format": (changed(format=2), "format: must be 1 for this release, got 2"),
    "a true format": (changed(format=True), "format: must be 1 for this release, got True"),
    "an unknown field": (changed(owner="x"), "manifest: must have the fields format, model"),
    "no files": (changed(files=[]), "files: must be a list with at least one file, got []"),
    "a capital": (changed(version="V1"), "version: must be 1 to 63 lower-case letters"),
    "a reserved version": (changed(version="adapters"), "version: must not be one of adapters"),
    "no time": (changed(created="today"), "created: must be a time, RFC 3339, got 'today'"),
    "a way out": (with_file(name="../x"), "files[0].name: must be a relative path without"),
    "an absolute name": (with_file(name="/x"), "files[0].name: must be a relative path without"),
    "the manifest itself": (with_file(name="_MANIFEST.json"), "files[0].name: must not be _MANI"),
    "a negative size": (with_file(size=-1), "files[0].size: must be a whole number of bytes"),
    "a true size": (with_file(size=True), "files[0].size: must be a whole number of bytes"),
    "a short checksum": (with_file(crc32c="AAAA"), "files[0].crc32c: must be 4 bytes in base64"),
    "a short hash": (with_file(sha256="ab"), "files[0].sha256: must be 64 digits 0 to f"),
    "another order": (with_file(name="z"), "files: must be sorted by name, each name once"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_manifest_is_one_line_with_field_rule_and_value(what):
    text, message = BROKEN[what]
    with pytest.raises(ValueError, match="must") as error:
        Manifest.parse(text)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_pointer_names_one_version():
    assert Current.parse(Current("v1").dump()) == Current("v1")
    with pytest.raises(ValueError, match=r"^version: must be 1 to 63 lower-case letters"):
        Current.parse('{"format": 1, "version": "-"}')


def test_a_folder_is_looked_up_name_by_name(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "sub" / "model.safetensors").write_text("1234")
    monkeypatch.setattr("os.scandir", None)
    monkeypatch.setattr("os.listdir", None)
    assert check_folder(tmp_path, MANIFEST) == ["sub/model.safetensors"]
    (tmp_path / "sub" / "model.safetensors").write_text("12345")
    assert check_folder(tmp_path, MANIFEST) == []
    (tmp_path / "config.json").unlink()
    assert check_folder(tmp_path, MANIFEST) == ["config.json"]


def test_weights_name_a_version_behind_an_at():
    assert split("llama-3.1-8b") == ("llama-3.1-8b", None)
    assert split("gs://acme/llama@v1") == ("gs://acme/llama", "v1")
    with pytest.raises(ValueError, match=r"^weights: must be 1 to 63 lower-case letters"):
        split("llama@V1")
