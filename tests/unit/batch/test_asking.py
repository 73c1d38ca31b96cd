"""Sending of requests: which failures count as an attempt, and which only cause a wait."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from workloads.batch.answers import Answer
from workloads.batch.asking import Asking, Question, Stopped
from workloads.batch.settings import Model, Settings
from workloads.common.pressure import Pressure

Respond = Callable[[int], web.Response]


def ask(
    respond: Respond,
    *,
    until: float = 20.0,
    body: Any = None,
    pressure: Pressure | None = None,
    meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None,
    **changes: Any,
) -> tuple[Answer, list[Any]]:
    """Return the answer to one request, and the requests that the gateway saw."""

    async def run() -> tuple[Answer, list[Any]]:
        seen: list[Any] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append((await request.json(), dict(request.headers)))
            return respond(len(seen))

        app = web.Application()
        app.router.add_post("/v1/completions", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        waits: dict[str, Any] = {"first_wait_seconds": 0.01, "longest_wait_seconds": 0.02}
        settings = Settings(
            bucket="b",
            endpoint=f"http://127.0.0.1:{port}",
            models={"llama": Model(("/v1/completions",), "llama-batch")},
            **waits | changes,
        )
        limit = pressure or Pressure(4)
        async with aiohttp.ClientSession() as session:
            asking = Asking(session, settings, limit, lambda _: None)
            asked = body or {"model": "llama"}
            question = Question("red", "batch_1", 3, "r", "/v1/completions", asked)
            stop = asyncio.Event()
            end = time.time() + until
            other = asyncio.create_task(meanwhile()) if meanwhile is not None else None
            try:
                await asking.enter("red", end, stop)
                return await asking.ask(question, end, stop), seen
            finally:
                if other is not None:
                    await other
                assert limit.running == 0
                await runner.cleanup()

    return asyncio.run(run())


def test_an_answer_has_the_id_of_its_request_and_the_priority_of_its_model() -> None:
    answer, seen = ask(lambda _: web.json_response({"choices": []}))
    assert answer.is_good
    assert line(answer)["id"] == "batch_req_100003"
    assert line(answer)["response"] == {
        "status_code": 200,
        "request_id": "batch_1-3",
        "body": {"choices": []},
    }
    ((body, headers),) = seen
    assert body == {"model": "llama"}
    assert headers["x-gateway-inference-objective"] == "llama-batch"


@pytest.mark.parametrize(
    ("teams", "named"), [(None, None), ({"red": None}, "red")], ids=["no gate", "gate"]
)
def test_the_gate_is_told_the_team_of_the_file(teams: Any, named: str | None) -> None:
    _, ((_, headers),) = ask(lambda _: web.json_response({}), teams=teams)
    assert headers.get("x-gki-on-behalf-of") == named


@pytest.mark.parametrize("status", [429, 503, 502, 401, 403])
def test_a_busy_pool_or_a_wrong_key_costs_no_attempt(status: int) -> None:
    def respond(number: int) -> web.Response:
        return web.json_response({}, status=status if number < 6 else 200)

    answer, seen = ask(respond, attempts=1)
    assert answer.is_good
    assert len(seen) == 6


def line(answer: Answer) -> Any:
    """Return the line of an answer."""
    return json.loads(answer.line)


def refused(code: str, seconds: int) -> web.Response:
    """Return a 429 as the gate of clients sends it where official clients must not go on."""
    headers = {"retry-after": str(seconds), "x-should-retry": "false"}
    return web.json_response({"error": {"code": code}}, status=429, headers=headers)


def test_a_request_larger_than_a_limit_fails_at_once() -> None:
    answer, seen = ask(lambda _: refused("rate_limit_exceeded", 60))
    assert not answer.is_good
    assert line(answer)["response"]["body"] == {"error": {"code": "rate_limit_exceeded"}}
    assert len(seen) == 1


def test_a_spent_quota_is_waited_for_and_asked_about_again() -> None:
    def respond(number: int) -> web.Response:
        return refused("insufficient_quota", 10**6) if number < 3 else web.json_response({})

    answer, seen = ask(respond, attempts=1)
    assert answer.is_good
    assert len(seen) == 3


def test_a_limit_of_a_team_slows_its_own_requests_and_not_the_others() -> None:
    class Watched(Pressure):
        refusals = 0

        def refused(self, retry_after: float | None = None) -> None:
            self.refusals += 1
            super().refused(retry_after)

    def limited(number: int) -> web.Response:
        return refused("insufficient_quota", 1) if number < 3 else web.json_response({})

    def busy(number: int) -> web.Response:
        return web.json_response({}, status=429 if number < 3 else 200)

    for respond, refusals in ((limited, 0), (busy, 2)):
        pressure = Watched(4)
        answer, _ = ask(respond, pressure=pressure)
        assert (answer.is_good, pressure.refusals) == (True, refusals)


def test_what_fails_in_the_middle_is_repeated_and_then_a_failure() -> None:
    answer, seen = ask(lambda _: web.json_response({"error": {}}, status=500), attempts=3)
    assert not answer.is_good
    assert line(answer)["response"]["status_code"] == 500
    assert len(seen) == 3


def test_a_refusal_of_the_model_is_a_failure_at_once() -> None:
    answer, seen = ask(lambda _: web.json_response({"error": {"code": "c"}}, status=404))
    assert line(answer)["response"]["body"] == {"error": {"code": "c"}}
    assert len(seen) == 1


def test_an_answer_that_is_not_json_is_no_answer() -> None:
    answer, _ = ask(lambda _: web.Response(text="<html>"))
    assert not answer.is_good
    assert line(answer)["response"]["status_code"] == 500


def test_a_key_that_cannot_be_read_is_waited_for(tmp_path: Path) -> None:
    key = tmp_path / "key"

    async def arrive() -> None:
        await asyncio.sleep(0.2)
        key.write_text("k\n")

    answer, seen = ask(
        lambda _: web.json_response({}), meanwhile=arrive, attempts=1, key_file=str(key)
    )
    assert answer.is_good
    assert [headers["Authorization"] for _, headers in seen] == ["Bearer k"]


def test_a_request_that_cannot_be_sent_is_a_failure_after_its_attempts() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = cast("Any", [deep])
    answer, seen = ask(lambda _: web.json_response({}), body={"model": "llama", "x": deep})
    assert line(answer)["error"]["code"] == "server_error"
    assert seen == []


def test_an_answer_with_too_many_levels_is_no_answer() -> None:
    answer, _ = ask(lambda _: web.Response(text="[" * 100_000 + "]" * 100_000))
    assert line(answer)["response"]["status_code"] == 500


def test_no_attempt_begins_after_the_end_of_the_batch() -> None:
    began = time.monotonic()
    with pytest.raises(Stopped):
        ask(
            lambda _: web.json_response({}, status=503, headers={"retry-after": "60"}),
            until=0.5,
        )
    assert time.monotonic() - began < 5
