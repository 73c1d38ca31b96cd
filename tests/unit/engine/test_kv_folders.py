"""The launcher's limit on folders with KV cache, which vLLM never deletes from."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from workloads.engine import caches, hardware
from workloads.engine.caches import limit_folders, shrink
from workloads.engine.spec import Serving

SIZE, NOW = 1000, 1_790_000_000
SERVING = Serving("gpu", "llama", "/weights", 1, 8192)
Block = Callable[..., Path]


@pytest.fixture
def block(tmp_path: Path) -> Block:
    """Return a function that writes a block, which was last read and written so long ago."""

    def write(name: str, *, read: int, written: int | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(SIZE))
        os.utime(path, (NOW - read, NOW - (read if written is None else written)))
        return path

    return write


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches.time, "time", lambda: float(NOW))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(caches, "say", lambda level, text, **_: lines.append(f"{level} {text}"))
    return lines


def left(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_full_folder_is_emptied_to_nine_tenths_from_the_oldest(tmp_path: Path, block: Block):
    for minute in range(20):
        block(f"a/{minute % 3}/{minute:02}.bin", read=60 * minute)
    assert shrink(tmp_path, 20 * SIZE) == 0
    assert shrink(tmp_path, 10 * SIZE) == 11
    assert {Path(each).stem for each in left(tmp_path)} == {f"{n:02}" for n in range(9)}


def test_blocks_of_one_minute_are_deleted_only_as_far_as_needed(tmp_path: Path, block: Block):
    for number in range(10):
        block(f"{number}.bin", read=120)
    block("old.bin", read=3600)
    assert shrink(tmp_path, 10 * SIZE) == 2
    assert len(left(tmp_path)) == 9
    assert "old.bin" not in left(tmp_path)


def test_a_block_that_was_read_stays_longer_than_one_that_was_written_later(
    tmp_path: Path, block: Block
):
    block("read.bin", read=60, written=9000)
    block("written.bin", read=8000, written=3000)
    shrink(tmp_path, 2 * SIZE - 1)
    assert left(tmp_path) == {"read.bin"}


def test_former_releases_and_settings_count_and_go_first_with_their_folders(
    tmp_path: Path, block: Block
):
    for number in range(4):
        block(f"0.31.0/llama_1_r0/abc/{number}.bin", read=10)
        block(f"0.32.0-new/llama_1_r0/abc/{number}.bin", read=9000)
    assert shrink(tmp_path, 5 * SIZE, [tmp_path / "0.32.0-new"]) == 4
    assert left(tmp_path) == {f"0.32.0-new/llama_1_r0/abc/{number}.bin" for number in range(4)}
    assert [path.name for path in tmp_path.iterdir()] == ["0.32.0-new"]


def test_a_folder_whose_name_only_begins_like_the_current_one_is_not_current(
    tmp_path: Path, block: Block
):
    block("own/a.bin", read=9000)
    block("own-2/a.bin", read=0)
    shrink(tmp_path, 2 * SIZE - 1, [tmp_path / "own"])
    assert left(tmp_path) == {"own/a.bin"}


def test_a_block_that_was_never_finished_is_deleted_after_an_hour(tmp_path: Path, block: Block):
    block("a.bin_12.tmp", read=3601)
    block("b.bin_13.tmp", read=3599)
    assert shrink(tmp_path, 100 * SIZE) == 1
    assert left(tmp_path) == {"b.bin_13.tmp"}


def test_blocks_that_are_being_written_count(tmp_path: Path, block: Block):
    block("a.bin_12.tmp", read=0)
    block("b.bin", read=0)
    assert shrink(tmp_path, 2 * SIZE - 1) == 1
    assert left(tmp_path) == {"a.bin_12.tmp"}


def test_a_file_that_cannot_be_deleted_is_reported_and_not_counted(
    tmp_path: Path, block: Block, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    for number in range(4):
        block(f"{number}.bin", read=600 * number)
    unlink = os.unlink

    def refuse(path: str) -> None:
        if path.endswith("3.bin"):
            raise PermissionError(13, "Permission denied", path)
        unlink(path)

    monkeypatch.setattr(caches.os, "unlink", refuse)
    assert shrink(tmp_path, 3 * SIZE) == 1
    assert left(tmp_path) == {"0.bin", "1.bin", "3.bin"}
    (line,) = said
    assert line.startswith(f"WARNING KV cache in {tmp_path}: 1 errors, such as [Errno 13]")


def test_a_file_that_another_replica_deleted_is_no_error_and_not_counted(
    tmp_path: Path, block: Block, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    block("a.bin", read=0)

    def gone(path: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(caches.os, "unlink", gone)
    assert shrink(tmp_path, SIZE - 1) == 0
    assert said == []


def test_a_folder_that_cannot_be_read_does_not_end_the_limit_of_others(
    tmp_path: Path, block: Block, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    block("broken/a.bin", read=0)
    block("good/a.bin", read=0)
    block("good/b.bin", read=0)
    stop, looks = threading.Event(), 0
    scandir = os.scandir

    def failing(path: str):
        nonlocal looks
        if str(path).endswith("/broken"):
            looks += 1
            if looks == 2:
                stop.set()
            raise OSError(116, "Stale file handle", path)
        return scandir(path)

    monkeypatch.setattr(caches, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(hardware, "root", lambda: tmp_path)
    folders = {"/broken": 0, "/good": 0}
    with monkeypatch.context() as during:
        during.setattr(caches.os, "scandir", failing)
        limit_folders(replace(SERVING, kv_folders=folders), stop)
    assert left(tmp_path) == {"broken/a.bin"}
    warned = [line for line in said if line.startswith("WARNING")]
    assert len(warned) == 2
    assert all("1 errors, such as [Errno 116] Stale file handle" in line for line in warned)
    assert "INFO KV cache in /good: 2 files are deleted" in said
