"""The shared folder: what no set needs any more is removed, whoever looks at the same time."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.personal.world import World
from workloads.personal.adopting import adopt
from workloads.personal.main import sweep_once
from workloads.personal.share import ADAPTER_FILE, Sweeper

DAY, HOUR = 86_400.0, 3600.0
NOW = 100 * DAY


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, time=NOW)


def put_of_others(
    world: World, place: str, name: str, age: float, file: str = ADAPTER_FILE
) -> Path:
    """Write a folder of somebody else, whose file has an age."""
    folder = world.shared / place / name
    folder.mkdir(parents=True)
    (folder / file).write_bytes(b"weights")
    os.utime(folder / file, (NOW - age, NOW - age))
    return folder


def put(world: World, place: str, name: str, age: float, file: str = ADAPTER_FILE) -> Path:
    """Write a folder of a set."""
    world.mark(name, age)
    return put_of_others(world, place, name, age, file)


def adapter(world: World, name: str, age: float) -> Path:
    return put(world, "flux/live-adapters", name, age)


def work(world: World, name: str, age: float) -> Path:
    return put(world, "work", name, age, "checkpoint.npz")


def sweep(world: World, count: int = 1) -> list[int]:
    """Return what each of some workers removed at the same time."""

    async def run() -> list[int]:
        sweepers = [Sweeper(world.settings(retention_days=7), world, world.now)] * count
        return list(await asyncio.gather(*[each.sweep() for each in sweepers]))

    return asyncio.run(run())


def end(world: World, name: str) -> None:
    """Add a set of alice that has ended."""
    world.add("alice", name)
    assert asyncio.run(world.worker("a").process("alice", name))


def test_an_adapter_is_removed_when_the_bucket_has_deleted_its_set(world: World) -> None:
    old, young = adapter(world, "alice-one", 7 * DAY + 1), adapter(world, "alice-two", 7 * DAY - 1)
    assert sweep(world) == [1]
    assert (old.exists(), young.exists()) == (False, True)


def test_an_adapter_of_an_ended_set_is_removed_and_of_an_unfinished_one_kept(world: World) -> None:
    end(world, "one")
    world.add("alice", "two")
    ended = world.shared / "flux" / "live-adapters" / "alice-one"
    os.utime(ended / ADAPTER_FILE, (NOW - 8 * DAY, NOW - 8 * DAY))
    waiting = adapter(world, "alice-two", 8 * DAY)
    assert sweep(world) == [1]
    assert (ended.exists(), waiting.exists()) == (False, True)


def test_a_checkpoint_that_a_late_pod_left_after_its_set_ended_is_removed(world: World) -> None:
    end(world, "one")
    late, writing = work(world, "alice-one", HOUR + 1), work(world, "alice-two", HOUR + 1)
    assert sweep(world) == [1]
    assert (late.exists(), writing.exists()) == (False, True)  # two has no state: a deletion runs


def emptied(folder: Path, age: float) -> None:
    """Remove the file of a folder at an age, as a removal does that is interrupted."""
    (folder / ADAPTER_FILE).unlink()
    os.utime(folder, (NOW - age, NOW - age))


def test_a_removal_that_was_interrupted_is_completed(world: World) -> None:
    left, new = adapter(world, "alice-one", 8 * DAY), adapter(world, "alice-two", 8 * DAY)
    emptied(left, HOUR + 1)
    emptied(new, HOUR - 1)  # a job may have begun
    assert sweep(world) == [1]
    assert (left.exists(), new.exists()) == (False, True)


def test_a_mark_is_deleted_after_its_folders_and_its_set(world: World) -> None:
    gone, left = world.mark("alice-one", 7 * DAY + 1), adapter(world, "alice-two", 7 * DAY - 1)
    young, known = world.mark("alice-three", 7 * DAY - 1), world.mark("alice-four", 8 * DAY)
    deleting = world.mark("bob-one", 8 * DAY)
    world.add("alice", "four")
    world.files["erasing/bob.json"] = (b"{}", 1)
    assert sweep(world) == [0]
    assert not gone.exists()
    assert all(each.exists() for each in (left, young, known, deleting))


def test_a_mark_and_what_a_removal_left_stay_together(world: World, monkeypatch: Any) -> None:
    left = adapter(world, "alice-one", 8 * DAY)
    mark = left.parents[2] / "marks" / "flux" / "live-adapters" / "alice-one"
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)  # it cannot be removed now
    sweep(world)
    assert (left.exists(), mark.exists()) == (True, True)
    monkeypatch.undo()
    assert sweep(world) == [1]
    assert (left.exists(), mark.exists()) == (False, False)


@pytest.mark.parametrize("age", [HOUR + 1, 8 * DAY, 99 * DAY])
def test_a_folder_of_somebody_else_is_never_removed(world: World, age: float) -> None:
    kept = [
        put_of_others(world, place, name, age)
        for place in ("flux/live-adapters", "work")
        for name in ("anime-style", "alice-one", "my-empty")
    ]
    world.mark("alice-two")
    for each in kept[2::3]:
        emptied(each, age)
    elsewhere = world.shared / "marks" / "other" / "live-adapters" / "anime-style"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.touch()  # of a set of another model
    assert sweep(world) == [0]
    assert all(each.exists() for each in kept)


def test_workers_that_look_at_the_same_time_do_not_disturb_each_other(world: World) -> None:
    for at in range(5):
        adapter(world, f"alice-{at}", 8 * DAY)
    assert max(sweep(world, 3)) <= 5
    assert list((world.shared / "flux" / "live-adapters").iterdir()) == []


def test_an_adapter_that_is_written_again_while_a_worker_looks_is_kept(world: World) -> None:
    folder, read = adapter(world, "alice-one", 8 * DAY), world.read

    async def trained_meanwhile(name: str) -> tuple[bytes, int] | None:
        found = await read(name)
        os.utime(folder / ADAPTER_FILE, (NOW, NOW))
        return found

    world.read = trained_meanwhile
    assert sweep(world) == [0]
    assert folder.exists()


def test_folders_with_names_of_people_are_not_touched(world: World) -> None:
    names = ("alice", "alice-dog-2", "Alice-one")
    kept = [adapter(world, name, 900 * DAY) for name in names]
    assert sweep(world) == [0]
    assert all(each.exists() for each in kept)


@pytest.mark.parametrize(
    ("archived", "state", "is_adopted"),
    [
        (b"weights", True, True),
        (b"weighty", True, False),
        (b"weights and more", True, False),
        (None, True, False),
        (b"weights", False, False),
    ],
)
def test_an_adapter_without_a_mark_is_a_sets_if_the_archive_has_the_same_bytes(
    world: World, archived: bytes | None, state: bool, is_adopted: bool
) -> None:
    folder = put_of_others(world, "flux/live-adapters", "alice-one", 8 * DAY)
    put_of_others(world, "flux/live-adapters", "anime", 8 * DAY)  # no name of a set
    if state:
        end(world, "one")
    if archived is not None:
        world.files["users/alice/one/results/adapter.safetensors"] = (archived, 1)
    assert asyncio.run(adopt(world.settings(), world)) == (0 if is_adopted else 1)
    assert asyncio.run(adopt(world.settings(), world, "bob")) == 0
    assert sweep(world) == [1 if is_adopted else 0]
    assert folder.exists() is not is_adopted


@pytest.mark.parametrize(
    ("stage", "seconds", "is_adopted"),
    [
        ("training", {}, True),
        ("waiting", {"training": 60.0}, True),  # its job was deleted
        ("failed", {"waiting": 1.0}, False),  # refused: the folder was somebody else's
        (None, {}, False),
    ],
)
def test_a_checkpoint_without_a_mark_is_a_sets_if_the_set_was_in_training(
    world: World, stage: str | None, seconds: dict[str, float], is_adopted: bool
) -> None:
    folder = put_of_others(world, "work", "alice-one", 8 * DAY, "checkpoint.npz")
    if stage is not None:
        world.set_stage("alice", "one", stage, seconds)
    assert asyncio.run(adopt(world.settings(), world)) == (0 if is_adopted else 1)
    world.files.pop("users/alice/one/state.json", None)  # after the bucket's retention
    assert sweep(world) == [1 if is_adopted else 0]
    assert folder.exists() is not is_adopted


def test_a_checkpoint_beside_an_adapter_that_is_not_the_sets_is_not_adopted(world: World) -> None:
    for place in ("flux/live-adapters", "work"):
        put_of_others(world, place, "alice-one", 8 * DAY)
    world.set_stage("alice", "one", "training", {})
    assert asyncio.run(adopt(world.settings(), world)) == 1


STATES = [b"{", b"[]", b"null", b'{"pictures": []}', b'{"pictures": 1}', b"[" * 100_000]


@pytest.mark.parametrize("state", STATES)
def test_a_state_that_nobody_can_read_keeps_its_own_folders_and_no_others(
    world: World, state: bytes
) -> None:
    kept, unknown = adapter(world, "alice-one", 8 * DAY), adapter(world, "alice-two", 8 * DAY)
    left = put_of_others(world, "work", "alice-three", 8 * DAY)
    end(world, "four")
    world.mark_file("alice-four").unlink()
    for name in ("one", "three"):
        world.files[f"users/alice/{name}/state.json"] = (state, 1)
    assert asyncio.run(adopt(world.settings(), world)) == 1
    assert world.mark_file("alice-four").is_file()
    assert sweep(world) == [1]
    assert (kept.exists(), unknown.exists(), left.exists()) == (True, False, True)


def test_old_folders_are_removed_though_nothing_can_be_marked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = adapter(world, "alice-one", 8 * DAY)

    async def fail(*_: Any) -> int:
        raise RuntimeError

    monkeypatch.setattr("workloads.personal.main.adopt", fail)
    asyncio.run(sweep_once(world.settings(retention_days=7), world, world.now))
    assert not old.exists()
