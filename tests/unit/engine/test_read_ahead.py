"""A mounted model is read once, ahead of the engine, while it starts."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from workloads.engine import weights
from workloads.engine.spec import Serving
from workloads.engine.weights_manifest import FileEntry, Manifest

MIB = 2**20
LIMIT = 30.0


class Model:
    """A model in a mounted folder. Files may be pipes, so that a test decides what is read when."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "models/m"
        self.folder.mkdir(parents=True)
        self.lines: list[dict[str, Any]] = []
        self.stop = threading.Event()
        self._sizes: dict[str, int] = {}

    def file(self, name: str, size: int) -> None:
        (self.folder / name).write_bytes(bytes(size))
        self._sizes[name] = size

    def pipe(self, name: str, size: int) -> None:
        os.mkfifo(self.folder / name)
        self._sizes[name] = size

    def lost(self, name: str, size: int) -> None:
        self._sizes[name] = size

    def read(self, source: str = "/models/m", *, read_ahead: bool = True) -> Any:
        files = tuple(FileEntry(name, size, "AAAAAA==", "0") for name, size in self._sizes.items())
        serving = Serving("tpu", "m", source, 4, 1024, read_ahead=read_ahead)
        manifest = Manifest("m", "v1", "2026-11-22T00:00:00Z", files)
        return weights.read_ahead(weights.Weights(serving, manifest), self.stop)

    def say(self, severity: str, message: str, **fields: Any) -> None:
        self.lines.append({"severity": severity, "message": message, **fields})


@pytest.fixture
def model(tmp_path, monkeypatch) -> Iterator[Model]:
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    made = Model(tmp_path)
    monkeypatch.setattr(weights, "say", made.say)
    yield made
    made.stop.set()


def until(what: Callable[[], Any]) -> Any:
    limit = time.monotonic() + LIMIT
    while time.monotonic() < limit:
        if found := what():
            return found
        time.sleep(0.005)
    raise AssertionError(f"nothing within {LIMIT} s")


def writer(pipe: Path) -> BinaryIO | None:
    """Return the other end of a pipe that is being read; None if nobody reads it."""
    try:
        return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def ends(thread: threading.Thread) -> bool:
    thread.join(LIMIT)
    return not thread.is_alive()


def test_every_file_of_the_manifest_is_read_to_its_end(model):
    sizes = (3 * MIB, 1, 17 * MIB)
    for number, size in enumerate(sizes):
        model.file(f"model-{number}.safetensors", size)
    assert ends(model.read())
    assert model.lines[-1]["message"] == "read 0.0 GiB of weights ahead"
    assert model.lines[-1]["bytes"] == model.lines[-1]["bytes_expected"] == sum(sizes)
    assert model.lines[-1]["eta_seconds"] == 0


def test_the_progress_line_has_bytes_rate_and_remaining_time(model, monkeypatch):
    monkeypatch.setattr(weights, "_SAY_SECONDS", 0.02)
    model.pipe("model.safetensors", 4000)
    thread = model.read()
    with until(lambda: writer(model.folder / "model.safetensors")) as end:
        end.write(bytes(1000))
        line = until(lambda: next((one for one in model.lines if one["bytes"] == 1000), None))
        assert line["bytes_expected"] == 4000
        assert line["bytes_per_second"] > 0
        remaining = 3000 / line["bytes_per_second"]
        assert line["eta_seconds"] == pytest.approx(remaining, abs=0.5 + 0.01 * remaining)
        end.write(bytes(3000))
    assert ends(thread)
    assert model.lines[-1]["bytes"] == 4000


def test_eight_files_are_read_at_once(model):
    names = [f"model-{number}.safetensors" for number in range(9)]
    for name in names:
        model.pipe(name, 1)
    thread = model.read()
    with ExitStack() as open_ends:
        first = [until(lambda at=name: writer(model.folder / at)) for name in names[:8]]
        for end in first:
            open_ends.enter_context(end)
        assert writer(model.folder / names[8]) is None
    with until(lambda: writer(model.folder / names[8])):
        pass
    assert ends(thread)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(model):
    model.lost("lost.safetensors", 5)
    model.file("model.safetensors", 7)
    assert ends(model.read())
    [warning] = [one for one in model.lines if one["severity"] == "WARNING"]
    assert warning["message"].startswith("cannot read lost.safetensors ahead: ")
    assert model.lines[-1]["bytes"] == 7


def test_reading_stops_when_the_server_is_asked_to_end(model, monkeypatch):
    monkeypatch.setattr(weights, "_SAY_SECONDS", 0.02)
    model.pipe("model.safetensors", MIB)
    thread = model.read()
    with until(lambda: writer(model.folder / "model.safetensors")) as end:
        model.stop.set()
        assert ends(thread)
        until(lambda: is_alone(end))  # the first byte ends the wait of the reader


def is_alone(end: BinaryIO) -> bool:
    """Return whether nobody reads a pipe any more."""
    try:
        end.write(b"x")
    except BrokenPipeError:
        return True
    return False


@pytest.mark.parametrize(("source", "read_ahead"), [("/models/m", False), ("gs://models/m", True)])
def test_only_a_mount_with_a_cache_is_read_ahead(model, source, read_ahead):
    model.file("model.safetensors", 7)
    assert model.read(source, read_ahead=read_ahead) is None
