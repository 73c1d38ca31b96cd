"""Sample weights of a deployment: written whole, and a push that fails is reported."""

from pathlib import Path

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.operate import sample_weights
from scripts.operate.sample_weights import SampleWeights, made_whole
from scripts.terminal.console import CommandError
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.wire.property_values import CloudError


def test_a_sample_is_in_its_place_only_once_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "models" / "sample"

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").touch()
        assert not place.exists()

    assert made_whole(place, write) == place
    assert [file.name for file in place.iterdir()] == ["config.json"]
    assert [file.name for file in place.parent.iterdir()] == ["sample"]


def test_the_sample_of_a_faster_twin_stays(tmp_path: Path) -> None:
    place = tmp_path / "sample"

    def write(folder: Path) -> None:
        for each, text in ((folder, "ours"), (place, "theirs")):
            each.mkdir()
            (each / "config.json").write_text(text)

    made_whole(place, write)
    assert (place / "config.json").read_text() == "theirs"
    made_whole(place, lambda _: pytest.fail("it is there"))


def test_a_sample_that_cannot_be_put_in_its_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        made_whole(tmp_path / "sample", lambda _: None)


def test_a_push_that_fails_in_any_way_fails_the_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CloudError(503, "busy", "storage")

    monkeypatch.setattr(gcs, "runs", lambda _: True)
    monkeypatch.setattr(gcs, "has_bucket", lambda *_: True)
    monkeypatch.setattr(sample_weights, "push_sample", refuse)
    pushed = SampleWeights(resolve(read("local")), TwinPaths(tmp_path))
    pushed.start()
    with pytest.raises(CommandError, match=r"^weights: googleapi: Error 503: busy, storage$"):
        pushed.finish(60)
