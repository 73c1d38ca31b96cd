"""The simulated pipeline's videos: real files, in the time that the planner estimates."""

import io
import struct
from collections.abc import Iterator

import pytest
from PIL import Image

from planner.speed.image_speed import stage_seconds
from simulator.diffusion import simulated
from simulator.diffusion.mp4 import written
from workloads.diffusion.config import Settings
from workloads.diffusion.work import Batch, Lap

FOLDER = "/mnt/models/wan2.1-t2v-1.3b"


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the type and the content of each box."""
    while data:
        size, kind = struct.unpack(">I4s", data[:8])
        yield kind, data[8:size]
        data = data[size:]


def inside(data: bytes, *path: bytes) -> bytes:
    """Return the content of a box inside others."""
    for kind in path:
        data = dict(boxes(data))[kind]
    return data


def numbers(content: bytes) -> list[int]:
    """Return the numbers of a table of numbers, after version and flags."""
    return list(struct.unpack(f">{len(content) // 4 - 1}I", content[4:]))


def test_each_frame_of_a_file_is_the_image_at_its_place_and_lasts_its_share_of_a_second():
    file = written([b"first", b"first", b"second"], 832, 480, 16)
    assert file[4:8] == b"ftyp"
    media = inside(file, b"moov", b"trak", b"mdia")
    table = inside(media, b"minf", b"stbl")
    sizes = numbers(inside(table, b"stsz"))[2:]
    places = numbers(inside(table, b"stco"))[1:]
    found = [file[at : at + size] for at, size in zip(places, sizes, strict=True)]
    assert found == [b"first", b"first", b"second"]
    assert file.count(b"first") == 1
    assert numbers(inside(table, b"stts")) == [1, 3, 1]
    _, _, timescale, duration = struct.unpack(">IIII", inside(media, b"mdhd")[4:20])
    assert (timescale, duration) == (16, 3)
    head = inside(file, b"moov", b"trak", b"tkhd")
    assert struct.unpack(">II", head[-8:]) == (832 << 16, 480 << 16)


class Watch:
    """Records the stages that were measured."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def __call__(self, stage: str) -> "Watch":
        self.stages.append(stage)
        return self

    def __enter__(self) -> Lap:
        return Lap(self.stages[-1])

    def __exit__(self, *_: object) -> None:
        """Keep nothing."""


def test_a_video_takes_what_the_planner_estimates_and_shows_its_prompt(
    monkeypatch: pytest.MonkeyPatch,
):
    slept: list[float] = []
    monkeypatch.setattr(simulated.time, "sleep", slept.append)
    settings = Settings(model="wan", folder=FOLDER, sizes=((832, 480),), max_batch=1)
    chip = simulated.Simulated(settings, "tpu-v6e-slice", 10.0)
    batch = Batch(
        model="wan", prompts=("a cat",), seeds=(7,), height=480, width=832, steps=3,
        guidance=5.0, adapters=(), format="mp4", frames=33,
    )  # fmt: skip
    watch = Watch()
    files = chip.generate(batch, lambda: False, watch, lambda *_: None)
    assert files is not None
    takes = stage_seconds("tpu-v6e", pixels=832 * 480, frames=33)
    assert sum(slept) == pytest.approx(takes.request(3) / 10)
    assert watch.stages[-2:] == ["vae_decode", "video_encode"]
    table = inside(files[0], b"moov", b"trak", b"mdia", b"minf", b"stbl")
    count, *sizes = numbers(inside(table, b"stsz"))[1:]
    place = numbers(inside(table, b"stco"))[1]
    with Image.open(io.BytesIO(files[0][place : place + sizes[0]])) as frame:
        assert (frame.format, frame.size, count) == ("JPEG", (832, 480), 33)
