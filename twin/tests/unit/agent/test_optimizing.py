"""Jobs that optimize models: with their libraries, without them, and with wrong settings."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.agent.launching import optimizing
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.volumes import Mount


@pytest.fixture
def place(tmp_path: Path) -> Any:
    (tmp_path / "disk").mkdir()
    mounts = [Mount("/work", tmp_path / "disk", read_only=False)]
    return SimpleNamespace(kubeconfig=tmp_path / "kubeconfig", mounts=mounts)


def run(monkeypatch: pytest.MonkeyPatch, place: Any, text: str, *, installed: bool) -> Any:
    packages = SimpleNamespace(is_installed=installed, python=lambda: Path("/packages/python"))
    monkeypatch.setattr(optimizing.optimization, "OPTIMIZATION", packages)
    file = place.kubeconfig.parent / "settings.json"
    file.write_text(text)
    return optimizing.command(Kind.OPTIMIZATION, ["tune", str(file)], place)


@pytest.mark.parametrize(
    ("installed", "module"), [(True, "workloads.optimization"), (False, "simulator.optimization")]
)
def test_the_work_is_real_where_the_libraries_are_installed(monkeypatch, place, installed, module):
    given = {"model": "chat", "work": "/work"}
    argv, is_real = run(monkeypatch, place, json.dumps(given), installed=installed)
    assert argv[argv.index("-m") + 1 : -1] == [module, "tune"]
    assert is_real is installed
    moved = json.loads(Path(argv[-1]).read_text())
    assert moved == {"model": "chat", "work": str(place.mounts[0].folder)}


@pytest.mark.parametrize("text", ["{", "[]", '{"work": 1}'])
def test_settings_that_cannot_be_read_are_left_to_the_program(monkeypatch, place, text):
    argv, _ = run(monkeypatch, place, text, installed=False)
    assert Path(argv[-1]).read_text() == text
