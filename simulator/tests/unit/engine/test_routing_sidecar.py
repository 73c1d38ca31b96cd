"""The sidecar between a prefilling and a decoding engine."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from simulator.sidecar.__main__ import arguments, runner_of
from simulator.sidecar.proxy import PREFILL_HEADER, Sidecar

PARAMS = {"do_remote_prefill": True, "remote_host": "127.0.0.9"}
ASKED = {"model": "m", "prompt": "hello", "max_tokens": 9, "stream_options": {"a": 1}}


class Recorder:
    """An engine that records its requests."""

    def __init__(self, status: int = 200, answer: Any = None) -> None:
        self.status, self.answer = status, answer if answer is not None else {"text": "hi"}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.app = web.Application()
        self.app.router.add_route("*", "/{path:.*}", self._answer)

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        body = json.loads(await http.read() or b"{}")
        self.bodies.append(body)
        self.headers.append({key.lower(): value for key, value in http.headers.items()})
        if body.get("stream"):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(http)
            for piece in (b"data: 1\n\n", b"data: [DONE]\n\n"):
                await response.write(piece)
            return response
        return web.json_response(self.answer, status=self.status)


Use = Callable[[TestClient[Any, Any], str], Awaitable[Any]]


def run(prefill: Recorder, decode: Recorder, use: Use) -> Any:
    """Run `use` with a client of the sidecar and the prefilling engine's address."""

    async def main() -> Any:
        async with TestServer(prefill.app) as one, TestServer(decode.app) as other:
            sidecar = Sidecar(str(other.make_url("")).rstrip("/"))
            async with TestClient(TestServer(sidecar.app)) as client:
                return await use(client, f"{one.host}:{one.port}")

    return asyncio.run(main())


def post(body: Any, header: str | None = "prefill", path: str = "/v1/completions") -> Use:
    async def use(client: TestClient[Any, Any], address: str) -> Any:
        headers = {}
        if header is not None:
            headers[PREFILL_HEADER] = address if header == "prefill" else header
        answer = await client.post(path, json=body, headers=headers)
        return answer.status, await answer.read()

    return use


def test_prompt_goes_to_prefill_and_the_request_with_its_answer_to_decode():
    prefill, decode = Recorder(answer={"kv_transfer_params": PARAMS}), Recorder()
    assert run(prefill, decode, post(ASKED))[0] == 200
    (first,), (second,) = prefill.bodies, decode.bodies
    assert (first["max_tokens"], first["max_completion_tokens"], first["stream"]) == (1, 1, False)
    assert "stream_options" not in first
    assert first["kv_transfer_params"]["do_remote_decode"] is True
    assert second == ASKED | {"kv_transfer_params": PARAMS}
    assert prefill.headers[0]["x-request-id"] == decode.headers[0]["x-request-id"]
    assert PREFILL_HEADER not in prefill.headers[0] | decode.headers[0]


@pytest.mark.parametrize("header", [None, "", " "])
def test_request_without_a_prefiller_goes_to_decode_as_it_is(header):
    prefill, decode = Recorder(), Recorder()
    assert run(prefill, decode, post(ASKED, header))[0] == 200
    assert (prefill.bodies, decode.bodies) == ([], [ASKED])


@pytest.mark.parametrize("status", [500, 502, 503, 302])
def test_prefill_with_a_servers_error_falls_back_to_decode(status):
    prefill, decode = Recorder(status), Recorder()
    assert run(prefill, decode, post(ASKED))[0] == 200
    assert decode.bodies == [ASKED]


def test_prefill_that_is_gone_falls_back_to_decode():
    prefill, decode = Recorder(), Recorder()
    assert run(prefill, decode, post(ASKED, "127.0.0.1:1"))[0] == 200
    assert decode.bodies == [ASKED]


def test_what_prefill_says_is_wrong_with_a_request_is_the_answer():
    prefill, decode = Recorder(400, {"error": "too long"}), Recorder()
    assert run(prefill, decode, post(ASKED)) == (400, b'{"error": "too long"}')
    assert decode.bodies == []


def test_answer_is_streamed_and_prefill_is_not():
    prefill, decode = Recorder(answer={"kv_transfer_params": PARAMS}), Recorder()
    _, body = run(prefill, decode, post(ASKED | {"stream": True}))
    assert body == b"data: 1\n\ndata: [DONE]\n\n"
    assert prefill.bodies[0]["stream"] is False


def test_other_paths_are_passed_on_and_health_is_the_sidecars_own():
    prefill, decode = Recorder(), Recorder(500)

    async def use(client: TestClient[Any, Any], _address: str) -> list[int]:
        return [(await client.get(path)).status for path in ("/health", "/metrics", "/v1/models")]

    assert run(prefill, decode, use) == [200, 500, 500]


def test_decoder_that_is_not_up_is_a_503():
    async def main() -> int:
        async with TestClient(TestServer(Sidecar("http://127.0.0.1:1").app)) as client:
            return (await client.post("/v1/completions", json=ASKED)).status

    assert asyncio.run(main()) == 503


@pytest.mark.parametrize(
    "argv",
    [[], ["--secure-proxy=true"], ["--secure-proxy=false", "--kv-connector=sglang"], ["--what"]],
)
def test_flags_that_the_twin_cannot_honour_are_refused(argv):
    with pytest.raises(SystemExit) as ended:
        arguments(argv)
    assert ended.value.code == 2


class Slow:
    """An engine that never answers, and knows when its client has gone."""

    def __init__(self) -> None:
        self.asked, self.left = asyncio.Event(), asyncio.Event()
        self.app = web.Application()
        self.app.router.add_post("/v1/completions", self._answer)

    async def _answer(self, _http: web.Request) -> web.Response:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError("nobody ends the wait")


def test_a_client_that_goes_away_ends_its_request_at_the_engine():
    async def main() -> None:
        slow = Slow()
        engine = web.AppRunner(slow.app, handler_cancellation=True)
        await engine.setup()
        site = web.TCPSite(engine, "127.0.0.1", 0)
        await site.start()
        runner = runner_of(Sidecar(f"http://127.0.0.1:{port_of(engine)}"))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with ClientSession() as session:
            url = f"http://127.0.0.1:{port_of(runner)}/v1/completions"
            asking = asyncio.create_task(session.post(url, json=ASKED))
            await slow.asked.wait()
            asking.cancel()
            await asyncio.wait_for(slow.left.wait(), 5)
        await runner.cleanup()
        await engine.cleanup()

    asyncio.run(main())


def port_of(runner: web.AppRunner) -> int:
    return int(runner.addresses[0][1])
