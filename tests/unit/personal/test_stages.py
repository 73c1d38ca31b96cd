"""A set on its way from pictures to the callback, whoever dies on it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.personal.world import SECRET, Killed, World
from workloads.personal.callback import ID, SIGNATURE, TIME, Unverified, headers, verify
from workloads.personal.jobs import objects_of

RESULTS = {
    "users/alice/one/results/000.png": b"on a bicycle 0",
    "users/alice/one/results/001.png": b"on the moon 1",
    "users/alice/one/results/adapter.safetensors": b"the adapter",
}


def process(world: World, owner: str = "a", **changes: Any) -> bool:
    return asyncio.run(world.worker(owner, **changes).process("alice", "one"))


def results(world: World) -> dict[str, bytes]:
    return {name: held[0] for name, held in world.files.items() if "/results/" in name}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.add()
    return made


def test_a_set_is_trained_drawn_archived_and_called_back_about(world: World) -> None:
    assert process(world)
    state = world.state()
    assert (state.stage, state.error, state.called) == ("done", "", "delivered")
    assert results(world) == RESULTS
    assert list(state.seconds) == ["waiting", "training", "drawing", "archiving", "calling"]
    assert world.jobs == world.configmaps == {}  # archived: the job has nothing more to say
    ((given, body),) = world.called
    assert verify(SECRET, given, body, world.time) == state.id
    assert json.loads(body)["images"] == 2


def effects_of_a_run(folder: Path) -> int:
    folder.mkdir()
    world = World(folder)
    world.add()
    process(world)
    return world.effects


def test_a_worker_killed_at_any_moment_is_resumed_without_training_or_drawing_again(
    tmp_path: Path,
) -> None:
    moments = 2 * effects_of_a_run(tmp_path / "whole")
    assert moments > 20
    stages: set[str] = set()
    for moment in range(moments):
        folder = tmp_path / str(moment)
        folder.mkdir()
        world = World(folder, die_at=moment)
        world.add()
        with pytest.raises(Killed):
            process(world)
        stages.add(world.state().stage)
        world.die_at = None
        if world.state().owner and world.state().stage != "done":
            assert not process(world, "b"), "the lease of the dead worker still stands"
        world.time += 61
        assert process(world, "b")
        assert (world.state().stage, results(world)) == ("done", RESULTS)
        assert world.trained == ["train-alice-one"], moment
        # twice is only the image, or the callback, whose worker died before it was noted
        assert len(world.drawn) <= 3, moment
        assert len(world.called) <= 2, moment
        assert {given[ID] for given, _ in world.called} == {world.state().id}
    assert stages == {"waiting", "training", "drawing", "archiving", "calling", "done"}


def test_a_repeated_message_does_nothing_twice(world: World) -> None:
    assert process(world)
    assert process(world, "b")
    assert (len(world.trained), len(world.drawn), len(world.called)) == (1, 2, 1)


def test_two_workers_never_have_one_set(world: World) -> None:
    async def both() -> list[bool]:
        first, second = world.worker("a"), world.worker("b")
        return list(
            await asyncio.gather(first.process("alice", "one"), second.process("alice", "one"))
        )

    assert sorted(asyncio.run(both())) == [False, True]
    assert len(world.trained) == 1
    assert len(world.drawn) == 2


def test_a_failed_training_is_reported_with_its_reason(world: World) -> None:
    world.outcome = "BackoffLimitExceeded"
    world.mark("alice-one")
    (world.shared / "work" / "alice-one").mkdir(parents=True)  # its checkpoint
    assert process(world)
    state = world.state()
    assert (state.stage, state.called) == ("failed", "delivered")
    assert state.error == "training: must complete, got BackoffLimitExceeded"
    assert json.loads(world.called[0][1])["error"] == state.error
    assert world.jobs == {}
    assert not (world.shared / "work" / "alice-one").exists()


def test_a_busy_gateway_returns_the_set_until_its_time_is_over(world: World) -> None:
    world.drawing = 429
    assert not process(world)
    assert world.state().owner == ""  # anybody may go on at once
    world.time += 1801
    assert process(world, "b")
    assert (
        world.state().error
        == "generation: must be possible within 1800 s, got generation: HTTP 429"
    )


@pytest.mark.parametrize(
    ("answers", "calls", "called"),
    [
        ([503, 503], 3, "delivered"),
        ([400], 1, "refused: HTTP 400"),
        ([302], 1, "refused: HTTP 302"),
        ([500] * 4, 4, "gave up: HTTP 500"),
    ],
)
def test_a_callback_is_repeated_until_it_is_taken_refused_or_too_often(
    world: World, answers: list[int], calls: int, called: str
) -> None:
    world.answers = answers
    assert process(world, callback_tries=4)
    assert (len(world.called), world.state().called) == (calls, called)
    assert world.state().stage == "done"


@pytest.mark.parametrize(
    ("change", "later", "message"),
    [
        ({SIGNATURE: "0" * 64}, 0, "X-Callback-Signature: must be the HMAC-SHA256 of time"),
        ({TIME: "999"}, 0, "X-Callback-Signature: must be the HMAC-SHA256 of time"),
        ({ID: "mallory-one"}, 0, "X-Callback-Signature: must be the HMAC-SHA256 of time"),
        ({}, 301, "X-Callback-Time: must be within 300 s, got 1000"),
    ],
)
def test_a_changed_or_old_callback_is_refused_by_its_receiver(
    change: dict[str, str], later: int, message: str
) -> None:
    given = {**headers(SECRET, b"{}", "alice-one", 1000), **change}
    with pytest.raises(Unverified, match=message):
        verify(SECRET, given, b"{}", 1000 + later)


def test_a_late_attempt_is_signed_at_its_own_time_and_verified_again(world: World) -> None:
    world.answers = [503] * 6
    assert process(world)
    times = [int(given[TIME]) for given, _ in world.called]
    assert times == [1000, 1002, 1006, 1014, 1030, 1062, 1122]
    for at, (given, body) in zip(times, world.called, strict=True):
        assert verify(SECRET, given, body, at + 300) == world.state().id


def test_a_receiver_whose_framework_changes_the_case_of_headers_verifies_them() -> None:
    given = {key.lower(): value for key, value in headers(SECRET, b"{}", "x", 1000).items()}
    assert verify(SECRET, given, b"{}", 1000) == "x"


def test_a_callback_is_not_signed_with_an_empty_secret(world: World) -> None:
    (world.shared / "secret").write_bytes(b" \n")
    assert not process(world)
    assert (world.state().stage, world.called) == ("calling", [])


def test_a_second_delivery_to_the_same_worker_does_not_take_the_set(world: World) -> None:
    worker = world.worker("a")

    async def both() -> list[bool]:
        return list(await asyncio.gather(*[worker.process("alice", "one") for _ in range(2)]))

    assert sorted(asyncio.run(both())) == [False, True]
    assert len(world.drawn) == 2
    assert len(world.called) == 1


def test_a_lease_is_renewed_while_a_stage_is_slow(world: World) -> None:
    draw = world.post

    async def slow(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        before = world.state().write
        while world.state().write == before:
            await asyncio.sleep(0.01)
        return await draw(url, body, headers)

    world.post = slow
    assert process(world, lease_seconds=0.1)
    assert world.state().stage == "done"


def test_an_answer_that_is_no_image_fails_the_set(world: World) -> None:
    draw = world.post

    async def broken(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        status, answer = await draw(url, body, headers)
        return status, b'{"data": []}' if "images" in url else answer

    world.post = broken
    assert process(world)
    assert world.state().error == "generation: must return an image, got another answer"


def test_an_unknown_error_returns_the_set_and_logs_no_text(world: World, capsys: Any) -> None:
    async def fail(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        del url, headers
        raise RuntimeError(body.decode())

    world.post = fail
    assert not process(world)
    assert world.state().owner == ""
    assert "bicycle" not in capsys.readouterr().err


def test_an_adapter_of_an_earlier_set_of_the_name_is_not_taken_for_the_new_one(
    world: World,
) -> None:
    earlier = world.shared / "flux" / "live-adapters" / "alice-one"
    earlier.mkdir(parents=True)
    world.mark("alice-one")
    create, seen = world.create, list[bool]()

    async def look(kind: str, obj: dict[str, Any]) -> None:
        seen.append(earlier.exists())
        await create(kind, obj)

    world.create = look
    assert process(world)
    assert seen == [False, False]


@pytest.mark.parametrize("place", ["flux/live-adapters", "work"])
def test_a_folder_of_somebody_else_is_not_replaced(world: World, place: str) -> None:
    folder = world.shared / place / "alice-one"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"weights")
    assert process(world)
    state = world.state()
    rule = "must not replace a folder of the shared folder that no set has made, got alice-one"
    assert (state.stage, state.error, world.trained) == ("failed", f"training: {rule}", [])
    assert (folder / "file").read_bytes() == b"weights"
    assert not (world.shared / "marks").exists()


def test_a_set_has_a_mark_before_there_is_a_job_and_while_it_is_trained(world: World) -> None:
    mark = world.mark("alice-one")
    mark.unlink()
    create, get, seen = world.create, world.get, list[bool]()

    async def look(kind: str, obj: dict[str, Any]) -> None:
        seen.append(mark.is_file())
        await create(kind, obj)

    async def look_again(name: str) -> dict[str, Any] | None:
        found = await get(name)
        if found is not None:
            seen.append(mark.is_file())
        return found

    async def forgotten(kind: str, obj: dict[str, Any]) -> None:
        await look(kind, obj)
        if kind == "jobs":
            mark.unlink()

    world.create, world.get = forgotten, look_again
    assert process(world)
    assert seen == [True, True, True]
    assert mark.is_file()


def test_the_job_trains_the_pictures_of_the_set_into_the_adapter_of_its_name(world: World) -> None:
    content, job = objects_of(world.state(), world.settings())
    assert json.loads(content["data"]["train.json"]) == {
        "adapter": f"{world.shared}/flux/live-adapters/alice-one",
        "images": "/mnt/images/users/alice/one/pictures",
        "rank": 4,
        "work": f"{world.shared}/work/alice-one",
    }
    assert (job["metadata"]["name"], job["metadata"]["namespace"]) == (
        "train-alice-one",
        "jobs-images",
    )
    (volume, _) = job["spec"]["template"]["spec"]["volumes"]
    assert volume == {"configMap": {"name": "train-alice-one"}}
