"""The service: what it takes, and each thing it refuses with one message."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.unit.personal.world import BODY, PNG, World, photo
from workloads.common.bucket import Entry
from workloads.personal.settings import FrontSettings, SettingsError, read

_NO_ERASURE = "erasure: must be one that is complete, got '../users/alice/one/state'"
ONE = "/v1/users/alice/sets/one"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def call(world: World, *calls: tuple[str, str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Return status and body of each call."""

    async def run() -> list[tuple[int, dict[str, Any]]]:
        async with TestClient(TestServer(world.front().application())) as client:
            found: list[tuple[int, dict[str, Any]]] = []
            for method, path, body in calls:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                async with client.request(method, path, data=data) as response:
                    found.append((response.status, await response.json()))
            return found

    return asyncio.run(run())


def upload(world: World, *content: bytes) -> None:
    for at in range(3):
        file = content[at] if at < len(content) else photo(at)
        world.files[f"users/alice/one/pictures/{at:03d}.png"] = (file, 1)


def test_a_set_is_announced_uploaded_started_and_shown(world: World) -> None:
    ((status, answer),) = call(world, ("PUT", ONE, BODY))
    assert (status, answer["expires"]) == (200, "1970-01-01T00:31:40Z")
    assert answer["uploads"][2] == {
        "url": "users/alice/one/pictures/002.png",
        "headers": {"content-type": "image/png"},
        "size": 100,
        "until": 1900.0,
    }
    upload(world)
    assert call(world, ("POST", ONE + "/start", {})) == [(202, {"stage": "waiting"})]
    assert world.published == [{"user": "alice", "set": "one"}]
    assert asyncio.run(world.worker("a").process("alice", "one"))
    ((status, shown),) = call(world, ("GET", ONE, {}))
    assert (status, shown["stage"], shown["callback"]) == (200, "done", "delivered")
    assert shown["images"][1] == "signed:users/alice/one/results/001.png"
    assert shown["adapter"] == "signed:users/alice/one/results/adapter.safetensors"


def test_announcing_and_starting_again_changes_nothing(world: World) -> None:
    first, second = call(world, ("PUT", ONE, BODY), ("PUT", ONE, BODY))
    assert first == second
    upload(world)
    start = ("POST", ONE + "/start", {})
    assert call(world, start, start) == [(202, {"stage": "waiting"})] * 2
    assert world.published == [{"user": "alice", "set": "one"}] * 2  # the first may be lost
    assert asyncio.run(world.worker("a").process("alice", "one"))
    assert call(world, start) == [(202, {"stage": "done"})]
    assert len(world.published) == 2


PICTURE = {"type": "image/png", "bytes": 100}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pictures": [PICTURE] * 2}, "pictures: must be a list of 3 to 20, got 2"),
        ({"pictures": [PICTURE] * 21}, "pictures: must be a list of 3 to 20, got 21"),
        (
            {"pictures": [{**PICTURE, "bytes": 10_000_001}] * 3},
            "pictures[0].bytes: must be 1 to 10000000, got 10000001",
        ),
        (
            {"pictures": [PICTURE, PICTURE, {**PICTURE, "type": "image/gif"}]},
            "pictures[2].type: must be one of image/jpeg, image/png, image/webp, got 'image/gif'",
        ),
        ({"pictures": [1, 2, 3]}, "pictures[0]: must be an object with type and bytes"),
        ({"prompts": []}, "prompts: must be a list of 1 to 8, got 0"),
        ({"prompts": [" "]}, "prompts[0]: must be a string of 1 to 1000 characters"),
        (
            {"callback": "http://app.example.com/done"},
            "callback: must be an https URL, got 'http://app.example.com/done'",
        ),
        (
            {"callback": "https://169.254.169.254/"},
            "callback: must go to app.example.com, got '169.254.169.254'",
        ),
        (
            {"callback": "https://app.exa\tmple.com/"},
            "callback: must be an https URL, got 'https://app.exa\\tmple.com/'",
        ),
        (
            {"callback": "https://app.example.com\\@x"},
            "callback: must be an https URL, got 'https://app.example.com\\\\@x'",
        ),
        (
            {"pictures": [PICTURE, PICTURE, {**PICTURE, "type": []}]},
            "pictures[2].type: must be one of image/jpeg, image/png, image/webp, got []",
        ),
        ({"callback": "https://[x"}, "callback: must be an https URL, got 'https://[x'"),
        ({"rank": 8}, "rank: must be one of callback, pictures, prompts"),
    ],
)
def test_a_bad_request_is_refused_by_field_and_rule(
    world: World, change: dict[str, Any], message: str
) -> None:
    assert call(world, ("PUT", ONE, {**BODY, **change})) == [(400, {"error": message})]
    assert world.files == {}


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", ONE, 404, "set: must be one of user alice, got one"),
        ("POST", ONE + "/start", 404, "set: must be one of user alice, got one"),
        (
            "GET",
            "/v1/users/Al..ice/sets/one",
            400,
            "user: must be 1 to 19 lowercase letters and digits, got 'Al..ice'",
        ),
        ("GET", "/v1/erasures/..%2Fusers%2Falice%2Fone%2Fstate", 404, _NO_ERASURE),
        ("GET", "/v1/erasures/x", 404, "erasure: must be one that is complete, got 'x'"),
        ("GET", "/v1/else", 404, "Not Found"),
    ],
)
def test_what_is_not_there_is_said(
    world: World, method: str, path: str, status: int, message: str
) -> None:
    assert call(world, (method, path, {})) == [(status, {"error": message})]


def test_a_body_that_is_no_object_is_refused(world: World) -> None:
    *notjson, alist = call(world, ("PUT", ONE, b"{"), ("PUT", ONE, b"[" * 90_000), ("PUT", ONE, []))
    for status, answer in notjson:
        assert status == 400
        assert answer["error"].startswith("body: must be JSON, got ")
    assert alist == (400, {"error": "body: must be a JSON object, got list"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "pictures[0]: must be uploaded, got nothing"),
        (PNG + bytes(100), f"pictures[0]: must have at most 100 bytes, got {len(PNG) + 100}"),
        (
            PNG[:30],
            "pictures[0]: must be an image that can be read, got UnidentifiedImageError",
        ),
        (b"GIF89a" + bytes(20), "pictures[0]: must be image/png, got another type"),
    ],
)
def test_a_set_starts_only_with_the_pictures_it_announced(
    world: World, content: bytes | None, message: str
) -> None:
    call(world, ("PUT", ONE, BODY))
    if content is not None:
        upload(world, content)
    assert call(world, ("POST", ONE + "/start", {})) == [(409, {"error": message})]
    assert world.published == []


def test_photos_that_look_the_same_are_reported_and_do_not_count_for_the_minimum(
    world: World,
) -> None:
    many = {**BODY, "pictures": [{"type": "image/png", "bytes": 1000}] * 4}
    call(world, ("PUT", ONE, many))
    upload(world)
    world.files["users/alice/one/pictures/003.png"] = (photo(1), 1)
    found = {"copies": [{"picture": 3, "looks_like": 1}]}
    start, show = call(world, ("POST", ONE + "/start", {}), ("GET", ONE, {}))
    assert start == (202, {"stage": "waiting", **found})
    assert show[1]["copies"] == found["copies"]

    two = "/v1/users/alice/sets/two"
    call(world, ("PUT", two, BODY))
    for at in range(3):
        world.files[f"users/alice/two/pictures/{at:03d}.png"] = (photo(at % 2), 1)
    message = "pictures: must have at least 3 that look different, got 2: 2 looks like 0"
    assert call(world, ("POST", two + "/start", {})) == [(409, {"error": message})]


def test_another_set_of_the_same_name_is_refused(world: World) -> None:
    call(world, ("PUT", ONE, BODY))
    ((status, answer),) = call(world, ("PUT", ONE, {**BODY, "prompts": ["else"]}))
    assert (status, answer["error"]) == (409, "set: must be new or unchanged, got another one")


def test_a_user_whose_data_is_being_deleted_gets_no_new_url(world: World) -> None:
    call(world, ("PUT", ONE, BODY))
    (first, again) = call(world, *[("DELETE", "/v1/users/alice", {})] * 2)
    assert first == again
    assert first[0] == 202
    message = {"user": "alice", "erasure": first[1]["erasure"]}
    assert (world.erasures, world.published) == ([message, message], [])
    put, get = call(world, ("PUT", ONE, BODY), ("GET", ONE, {}))
    rule = "user: must not be one whose data is being deleted, got alice"
    assert put == (409, {"error": rule})
    assert get[0] == 404
    assert asyncio.run(world.eraser().erase("alice"))
    ((status, proof),) = call(world, ("GET", f"/v1/erasures/{first[1]['erasure']}", {}))
    assert (status, set(proof["left"].values())) == (200, {0})


def test_the_identifier_of_a_deletion_cannot_be_computed_from_user_and_time(world: World) -> None:
    ((_, first),) = call(world, ("DELETE", "/v1/users/alice", {}))
    world.files.clear()
    ((_, second),) = call(world, ("DELETE", "/v1/users/alice", {}))
    assert first["erasure"] != second["erasure"]


def test_a_url_is_not_signed_for_a_set_that_a_deletion_took_meanwhile(world: World) -> None:
    read = world.read

    async def swept(name: str) -> tuple[bytes, int] | None:
        found = await read(name)
        if name.startswith("erasing/") and "users/alice/one/state.json" in world.files:
            del world.files["users/alice/one/state.json"]
        return found

    world.read = swept
    assert call(world, ("PUT", ONE, BODY)) == [
        (409, {"error": "set: was changed at the same time, got one"})
    ]


def test_a_set_of_an_earlier_name_has_another_identifier(world: World) -> None:
    call(world, ("PUT", ONE, BODY), ("PUT", ONE, BODY))
    first = world.state().id
    world.files.clear()
    call(world, ("PUT", ONE, BODY))
    assert len(first) == 32
    assert first != world.state().id


def test_a_user_has_a_limit_of_unfinished_sets(world: World) -> None:
    for at in range(4):
        world.add("alice", f"{at}")
    limit = "user: must have at most 4 unfinished sets, got 4 and this one"
    assert call(world, ("PUT", ONE, BODY)) == [(429, {"error": limit})]
    assert asyncio.run(world.worker("a").process("alice", "0"))
    ((status, _), (again, _)) = call(world, ("PUT", ONE, BODY), ("PUT", ONE, BODY))
    assert (status, again) == (200, 200)
    assert call(world, ("PUT", ONE.replace("alice", "bob"), BODY))[0][0] == 200


def test_a_set_that_was_never_uploaded_counts_until_its_urls_expire(world: World) -> None:
    puts = [("PUT", f"/v1/users/alice/sets/{at}", BODY) for at in range(5)]
    assert [status for status, _ in call(world, *puts)] == [200, 200, 200, 200, 429]
    world.time += 901
    assert call(world, puts[4])[0][0] == 200


class Interleaved(World):
    """A world in which every call to the bucket lets the other requests go first."""

    async def read(self, name: str) -> tuple[bytes, int] | None:
        await asyncio.sleep(0)
        return await super().read(name)

    async def entries(self, prefix: str) -> list[Entry]:
        await asyncio.sleep(0)
        return await super().entries(prefix)

    async def write(
        self, name: str, content: bytes, *, generation: int | None = None, kind: str = ""
    ) -> int:
        await asyncio.sleep(0)
        return await super().write(name, content, generation=generation, kind=kind)


def at_once(world: World, method: str, *paths: str) -> list[int]:
    """Return the status of calls that are made at the same time."""

    async def run() -> list[int]:
        async with TestClient(TestServer(world.front().application())) as client:

            async def one(path: str) -> int:
                async with client.request(method, path, data=json.dumps(BODY).encode()) as response:
                    return response.status

            return list(await asyncio.gather(*[one(path) for path in paths]))

    return asyncio.run(run())


def test_sets_that_are_announced_at_the_same_time_do_not_exceed_the_limit(tmp_path: Path) -> None:
    world = Interleaved(tmp_path)
    statuses = at_once(world, "PUT", *[f"/v1/users/alice/sets/{at}" for at in range(9)])
    assert sorted(statuses) == [200] * 4 + [429] * 5
    assert len([name for name in world.files if name.endswith("state.json")]) == 4


def test_expired_sets_that_are_started_at_the_same_time_do_not_exceed_the_limit(
    tmp_path: Path,
) -> None:
    world = Interleaved(tmp_path)
    paths = [f"/v1/users/alice/sets/{at}" for at in range(8)]
    for few in (paths[:4], paths[4:]):
        assert at_once(world, "PUT", *few) == [200] * 4
        world.time += 901
    for path in paths:
        for at in range(3):
            name = f"users/alice/{path.rpartition('/')[2]}/pictures/{at:03d}.png"
            world.files[name] = (photo(at), 1)
    statuses = at_once(world, "POST", *[f"{path}/start" for path in paths])
    assert sorted(statuses) == [202] * 4 + [429] * 4
    assert len(world.published) == 4


def test_a_place_that_was_taken_for_nothing_is_free_after_the_time_of_its_urls(
    world: World,
) -> None:
    places = {f"{at}": 1900.0 for at in range(4)}  # of calls that died before their set
    world.files["users/alice/places.json"] = (json.dumps(places).encode(), 7)
    assert call(world, ("PUT", ONE, BODY))[0][0] == 429
    world.time = 1901.0
    assert call(world, ("PUT", ONE, BODY))[0][0] == 200
    assert json.loads(world.files["users/alice/places.json"][0]) == {"one": 2801.0}


def test_an_unknown_error_is_answered_and_logged_without_its_text(
    world: World, capsys: Any
) -> None:
    async def fail(_: str) -> None:
        raise RuntimeError("alice")

    world.read = cast("Any", fail)
    assert call(world, ("GET", ONE, {})) == [(500, {"error": "service: failed, see its log"})]
    assert "alice" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signer": 1}, "signer: must be a string, got 1"),
        ({"topic": ""}, "topic: must be set, got nothing"),
        ({"callback_hosts": []}, "callback_hosts: must be set, got nothing"),
        ({"upload_seconds": 604_801}, "upload_seconds: must be 1 to 604800, got 604801"),
        ({"max_open_sets": 0}, "max_open_sets: must be 1 to 1000, got 0"),
        ({"min_photos": 30}, "min_photos: must be 1 to 20, got 30"),
    ],
)
def test_settings_are_refused_by_field(change: dict[str, Any], message: str) -> None:
    given = {"bucket": "b", "callback_hosts": ["h"], "erasures_topic": "e", "signer": "s"}
    given["topic"] = "t"
    with pytest.raises(SettingsError) as raised:
        read(FrontSettings, json.dumps({**given, **change}))
    assert str(raised.value) == message
