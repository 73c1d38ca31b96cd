"""A user's data: all of it goes, whoever writes or dies meanwhile."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.personal.world import Killed, World
from workloads.personal.jobs import USER, objects_of
from workloads.personal.main import handled
from workloads.personal.share import ADAPTER_FILE

NAME = "0123456789abcdef" * 2
BEGUN = json.dumps({"id": NAME, "since": 1000.0}).encode()
NOTHING = {"objects": 0, "folders": 0, "jobs": 0, "configmaps": 0}


def begin(folder: Path) -> World:
    """Return a world with a finished set of alice, one in training, and one of bob."""
    folder.mkdir()
    world = World(folder)
    for user, name in (("alice", "one"), ("alice", "two"), ("bob", "one")):
        world.add(user, name)
    asyncio.run(world.worker("a").process("alice", "one"))
    asyncio.run(world.worker("a").process("bob", "one"))
    for user, name in (("alice", "two"), ("bob", "two")):
        add_job(world, user, name)
    (world.shared / "work" / "alice-two").mkdir(parents=True)
    world.mark("alice-two")
    world.files["erasing/alice.json"] = (BEGUN, 10_000)
    world.effects = 0
    return world


def add_job(world: World, user: str, name: str) -> None:
    """Add the objects of a job that has begun, without a state that names them."""
    labels = {"metadata": {"labels": {USER: user}}}
    world.jobs[f"train-{user}-{name}"] = world.configmaps[f"train-{user}-{name}"] = labels


def erase(world: World) -> bool:
    message = json.dumps({"user": "alice", "erasure": NAME}).encode()
    return asyncio.run(handled(message, world.worker("c"), world.eraser()))


def traces(world: World) -> list[str]:
    """Return everything anywhere whose name has the user."""
    places: list[str] = [*world.files, *world.jobs, *world.configmaps]
    places += [str(path.relative_to(world.shared)) for path in world.shared.rglob("*")]
    return [place for place in places if "alice" in place]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return begin(tmp_path / "world")


def test_nothing_of_a_user_is_left_and_nothing_of_another_is_touched(world: World) -> None:
    others = {name: held for name, held in world.files.items() if "bob" in name}
    before = len(traces(world))
    assert before > 10
    assert erase(world)
    assert traces(world) == []
    assert {name: held for name, held in world.files.items() if "bob" in name} == others
    assert (world.shared / "flux" / "live-adapters" / "bob-one").is_dir()
    proof = json.loads(world.files[f"erasures/{NAME}.json"][0])
    # of each set the picture and the state, and of the first its three results
    assert proof["deleted"] == {"objects": 7, "folders": 2, "jobs": 1, "configmaps": 1}
    assert proof["left"] == NOTHING
    assert list(world.jobs) == list(world.configmaps) == ["train-bob-two"]
    assert "alice" not in json.dumps(proof) + NAME


def test_a_deletion_killed_at_any_moment_is_completed(tmp_path: Path) -> None:
    whole = begin(tmp_path / "whole")
    assert erase(whole)
    moments = 2 * whole.effects
    assert moments > 20
    for moment in range(moments):
        world = begin(tmp_path / str(moment))
        world.die_at = moment
        with pytest.raises(Killed):
            erase(world)
        world.die_at = None
        assert erase(world), moment
        assert traces(world) == [], moment
        assert json.loads(world.files[f"erasures/{NAME}.json"][0])["left"] == NOTHING


def test_only_names_of_a_user_and_a_set_are_deleted(world: World) -> None:
    adapters = world.shared / "flux" / "live-adapters"
    others = ("alice-two-old", "alice", "alice.two", "alicia-one", "alice-Two")
    for name in others:
        (adapters / name).mkdir()
    assert erase(world)
    assert sorted(each.name for each in adapters.iterdir()) == sorted((*others, "bob-one"))


def test_folders_of_somebody_else_with_such_a_name_are_not_deleted(world: World) -> None:
    others = [
        world.shared / place / name
        for place in ("flux/live-adapters", "work")
        for name in ("alice-style", "alice-empty")
    ]
    for each in others:
        each.mkdir(parents=True)
    for each in others[::2]:
        (each / "file").write_bytes(b"weights")
    assert erase(world)
    assert all(each.is_dir() for each in others)
    assert all((each / "file").is_file() for each in others[::2])
    proof = json.loads(world.files[f"erasures/{NAME}.json"][0])
    assert (proof["deleted"]["folders"], proof["left"]) == (2, NOTHING)


def test_a_folder_that_is_written_until_the_pods_end_is_deleted(world: World) -> None:
    world.ending.add("train-alice-two")
    assert not erase(world)
    late = world.shared / "flux" / "live-adapters" / "alice-two"
    late.mkdir(parents=True)
    world.ending.clear()
    assert erase(world)
    assert traces(world) == []


def test_an_adapter_from_before_marks_is_deleted_if_the_archive_has_it(world: World) -> None:
    place = world.shared / "flux" / "live-adapters"
    (world.shared / "marks" / "flux" / "live-adapters" / "alice-one").unlink()
    (place / "alice-own").mkdir()
    (place / "alice-own" / ADAPTER_FILE).write_bytes(b"the adapter")  # of no set
    assert erase(world)
    assert traces(world) == [
        "flux/live-adapters/alice-own",
        f"flux/live-adapters/alice-own/{ADAPTER_FILE}",
    ]
    assert json.loads(world.files[f"erasures/{NAME}.json"][0])["unmarked"] == 1
    assert (place / "bob-one").is_dir()


@pytest.mark.parametrize(("has_state", "left"), [(True, 0), (False, 1)])
def test_a_checkpoint_from_before_marks_is_deleted_or_counted(
    world: World, has_state: bool, left: int
) -> None:
    checkpoint = world.shared / "work" / "alice-three"
    checkpoint.mkdir()
    if has_state:
        world.set_stage("alice", "three", "training", {})
    assert erase(world)
    assert json.loads(world.files[f"erasures/{NAME}.json"][0])["unmarked"] == left
    assert checkpoint.exists() is not has_state


def test_a_state_that_nobody_can_read_is_deleted_after_its_last_url_expires(world: World) -> None:
    world.files["users/alice/bad/state.json"] = (b"[]", 1)
    world.time = begun = 9000.0  # the URLs of the other sets have expired
    assert erase(world)
    assert world.time > begun + 900
    assert traces(world) == []


def test_a_link_is_deleted_and_what_it_leads_to_is_not(world: World) -> None:
    others = world.shared / "flux" / "live-adapters" / "bob-one"
    (world.shared / "work" / "alice-three").symlink_to(others)
    world.mark("alice-three")
    assert erase(world)
    assert traces(world) == []
    assert list(others.iterdir())


def test_a_job_that_is_created_while_its_user_is_deleted_is_deleted_too(world: World) -> None:
    sleep = world.sleep

    async def submit_late(seconds: float) -> None:
        await sleep(seconds)
        if not world.jobs.get("train-alice-nine"):
            add_job(world, "alice", "nine")

    world.sleep = submit_late
    assert erase(world)
    assert traces(world) == []


def test_there_is_no_proof_while_pods_of_a_job_run(world: World) -> None:
    world.ending.add("train-alice-two")
    assert not erase(world)
    assert f"erasures/{NAME}.json" not in world.files
    world.ending.clear()
    assert erase(world)
    assert json.loads(world.files[f"erasures/{NAME}.json"][0])["left"] == NOTHING


def test_the_jobs_of_a_set_have_the_label_by_which_a_deletion_finds_them(world: World) -> None:
    for obj in objects_of(world.state("alice", "two"), world.settings()):
        assert obj["metadata"]["labels"] == {USER: "alice"}


def test_a_late_second_delivery_does_not_begin_a_completed_deletion_again(world: World) -> None:
    read, message = world.read, json.dumps({"user": "alice", "erasure": NAME}).encode()

    async def completed_meanwhile(name: str) -> tuple[bytes, int] | None:
        found = await read(name)
        world.files.pop("erasing/alice.json", None)
        return found

    world.read = completed_meanwhile
    assert not asyncio.run(handled(message, world.worker("c"), world.eraser()))
    assert "erasing/alice.json" not in world.files
    assert asyncio.run(handled(message, world.worker("c"), world.eraser()))


def test_an_error_of_a_deletion_is_logged_without_its_user(world: World, capsys: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("alice")

    world.names = cast("Any", fail)
    assert not erase(world)
    assert "alice" not in capsys.readouterr().err


def test_a_url_that_was_signed_before_cannot_leave_a_picture_behind(world: World) -> None:
    sleep = world.sleep

    async def upload_late(seconds: float) -> None:
        await sleep(seconds)
        if world.time < 1900:  # until then a URL of the set is valid
            world.files["users/alice/two/pictures/001.png"] = (b"late", 1)

    world.sleep = upload_late
    assert erase(world)
    assert world.time > 1900
    assert traces(world) == []


def test_a_worker_in_the_middle_of_a_set_stops_and_leaves_nothing(tmp_path: Path) -> None:
    world = begin(tmp_path / "world")
    del world.jobs["train-alice-two"]
    draw, parts = world.post, asyncio.Event()

    async def slow(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        parts.set()
        await asyncio.sleep(0.05)  # until here, the eraser deletes
        return await draw(url, body, headers)

    world.post = slow

    async def both() -> tuple[bool, bool]:
        del world.files["erasing/alice.json"]
        working = asyncio.create_task(world.worker("w").process("alice", "two"))
        await parts.wait()
        world.files["erasing/alice.json"] = (BEGUN, 10_000)
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

        async def later(seconds: float) -> None:
            world.time += seconds
            await sleep(0.005)

        world.sleep = later
        erased = await world.eraser().erase("alice")
        return await working, erased

    assert asyncio.run(both()) == (False, True)
    assert traces(world) == []


def test_a_message_that_nobody_can_read_is_not_delivered_again(world: World) -> None:
    names = (b'{"set": "one"}', b'{"user": "alice"}', b'{"user": "*", "erasure": "x"}')
    for data in (b"\xff", b"[]", b"[" * 100_000, *names, b'{"user": "alice", "set": "../bob"}'):
        assert asyncio.run(handled(data, world.worker("c"), world.eraser()))
