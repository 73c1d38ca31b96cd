"""GKE's CRDs as an API server stored them: what they depend on, and where they cannot be kept."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from twin.cluster.controlplane import kinds, stored_kinds


def test_the_key_changes_with_what_is_left_to_users_and_with_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kinds, "share", lambda _: tmp_path)
    found = [kinds.key("1.36.0-gke.1000000")]
    monkeypatch.setattr(kinds, "_LEFT_TO_USERS", ())
    found.append(kinds.key("1.36.0-gke.1000000"))
    (tmp_path / "gateways.yaml").write_text("kind: CustomResourceDefinition\n")
    found.append(kinds.key("1.36.0-gke.1000000"))
    monkeypatch.setattr(kinds, "module_of", lambda _: SimpleNamespace(key="newer"))
    found.append(kinds.key("1.36.0-gke.1000000"))
    found.append(kinds.key("1.30.0-gke.1000000"))  # without CapacityBuffer
    assert len(set(found)) == len(found)


def test_a_folder_that_cannot_be_written_keeps_nothing_and_stops_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(tmp_path / "file" / "tools"))
    stored_kinds.keep("one", [{"metadata": {"name": "crd", "uid": "u"}}])
    assert stored_kinds.read("one") == []


def test_a_damaged_file_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(tmp_path / "tools"))
    stored_kinds.keep("one", [{"metadata": {"name": "crd", "uid": "u"}}])
    assert [crd["metadata"] for crd in stored_kinds.read("one")] == [{"name": "crd"}]
    (file,) = (tmp_path / "control-planes").iterdir()
    file.write_text(file.read_text()[:20])
    assert stored_kinds.read("one") == []
