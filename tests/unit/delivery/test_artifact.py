"""A tree as an OCI artifact, and what the twin reads of it."""

import json
import tarfile

import pytest

from scripts.delivery.artifact import artifact_of, write_layout
from scripts.delivery.tree import tree_of
from scripts.terminal.console import CommandError
from twin.cluster.delivery.sources import Source, SourceError


def tree(value="1"):
    return tree_of(
        "s",
        "search",
        {
            "clusters/us": [
                {
                    "apiVersion": "v1",
                    "data": {"value": value},
                    "kind": "ConfigMap",
                    "metadata": {"name": "a", "namespace": "search"},
                }
            ]
        },
    )


def source(folder, cache, tag="prod", directory="clusters/us"):
    part = {"auth": "none", "dir": directory, "image": f"file://{folder}:{tag}"}
    return Source({"oci": part, "sourceType": "oci"}, cache, lambda _: None)


def test_an_artifact_has_the_same_digest_each_time():
    assert artifact_of(tree(), "s").digest == artifact_of(tree(), "s").digest
    assert artifact_of(tree("2"), "s").digest != artifact_of(tree(), "s").digest


def test_the_manifest_names_one_gzipped_tar_with_the_files(tmp_path):
    made = artifact_of(tree(), "search")
    [layer] = json.loads(made.manifest)["layers"]
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    file = tmp_path / "layer.tar.gz"
    file.write_bytes(made.blobs[layer["digest"]])
    with tarfile.open(file) as archive:
        assert archive.getnames() == [
            "clusters",
            "clusters/us",
            "clusters/us/SHA256SUMS",
            "clusters/us/STACK",
            "clusters/us/configmap.core-a.yaml",
        ]
        assert {entry.mtime for entry in archive} == {0}


def test_a_layout_is_read_back_by_its_tag(tmp_path):
    layout = tmp_path / "layout"
    write_layout(artifact_of(tree("1"), "s"), layout, "old")
    write_layout(artifact_of(tree("2"), "s"), layout, "prod")
    write_layout(artifact_of(tree("3"), "s"), layout, "prod")
    assert len(json.loads((layout / "index.json").read_text())["manifests"]) == 2
    read = source(layout, tmp_path / "cache")
    assert read.revision() == artifact_of(tree("3"), "s").digest
    place = read.fetch(read.revision(), tmp_path / "out")
    assert "value: '3'" in (place / "configmap.core-a.yaml").read_text()


def test_a_tag_or_a_folder_that_is_not_there_is_an_error_of_the_source(tmp_path):
    layout = tmp_path / "layout"
    write_layout(artifact_of(tree(), "s"), layout, "prod")
    with pytest.raises(SourceError, match=r"KNV2004: .* has no tag 'gone'"):
        source(layout, tmp_path, tag="gone").revision()
    with pytest.raises(SourceError, match="has no folder 'elsewhere'"):
        source(layout, tmp_path, directory="elsewhere").fetch("x", tmp_path / "out")


def test_a_blob_with_other_content_than_its_digest_is_refused(tmp_path):
    layout = tmp_path / "layout"
    made = artifact_of(tree(), "s")
    write_layout(made, layout, "prod")
    (layout / "blobs" / made.digest.replace(":", "/")).write_bytes(b"{}")
    with pytest.raises(SourceError, match="has another digest"):
        source(layout, tmp_path).revision()


def test_a_folder_with_something_else_is_no_layout(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(CommandError, match="--oci: must be an empty folder or an OCI layout"):
        write_layout(artifact_of(tree(), "s"), tmp_path, "prod")
