"""Servers of the tests, in a thread: an engine, Secret Manager and an identity provider."""

import asyncio
import base64
import json
import threading
from collections import Counter
from typing import Any

from aiohttp import web

from simulator.server.bodies.text import tokenize
from simulator.server.bodies.vectors import embedding
from tests.running.callout.issuer import Issuer
from twin.host.ports import free_port

_BYTES_PER_TOKEN = 7  # not the callout's guess, so that a guess cannot pass for the engine's count
_MAX_BODY = 32 << 20
_TEAM = "x-gateway-inference-fairness-id"


class Servers:
    """One web server that is all of them; an engine always reports its usage."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.team_tokens: Counter[str] = Counter()  # of answers that are no stream
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.keys: dict[str, Any] | None = {"keys": []}
        self.issuer = Issuer()
        self.jwks_reads = 0
        self.reports_usage = True
        self.embeds = True
        self.embedded: list[str] = []
        self.text = ""  # of each answer; empty: some of the engine's own
        self.event_seconds = 0.0
        self.left_streams = 0  # those that a client left before their end
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self._thread.start()
        if not self._started.wait(10):
            raise AssertionError("the servers did not start")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_get("/v1/projects/p/secrets/s/versions/latest:access", self._secret)
        app.router.add_get("/jwks", self._jwks)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/embeddings", self._embed)
        app.router.add_post("/v1/{kind:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    def stop(self) -> None:
        """End the servers."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _secret(self, request: web.Request) -> web.Response:
        if self.keys is None:
            return web.Response(status=503)
        data = base64.b64encode(json.dumps(self.keys).encode()).decode()
        return web.json_response({"name": "latest", "payload": {"data": data}})

    async def _health(self, request: web.Request) -> web.Response:
        self.requests.append(({k.lower(): v for k, v in request.headers.items()}, b""))
        return web.Response(text="ok")

    async def _jwks(self, request: web.Request) -> web.Response:
        self.jwks_reads += 1
        return web.json_response(self.issuer.jwks())

    async def _models(self, request: web.Request) -> web.Response:
        self.requests.append(({k.lower(): v for k, v in request.headers.items()}, b""))
        models = [{"id": name, "object": "model"} for name in ("llama", "llama-sql", "other")]
        return web.json_response({"object": "list", "data": models})

    async def _embed(self, request: web.Request) -> web.Response:
        if self.embeds is False:
            return web.Response(status=503)
        body = await request.json()
        self.embedded.append(body["input"])
        vector = embedding(tokenize(body["input"]), 64)
        return web.json_response({"data": [{"index": 0, "embedding": vector}]})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        self.requests.append(({k.lower(): v for k, v in request.headers.items()}, content))
        body = json.loads(content)
        prompt, completion = len(content) // _BYTES_PER_TOKEN, int(body.get("max_tokens") or 16)
        self.prompt_tokens += prompt
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
        }
        if body.get("stream"):
            return await self._stream(request, body["model"], completion, usage)
        self.completion_tokens += completion
        self.team_tokens[request.headers.get(_TEAM, "")] += prompt + completion
        message = {"role": "assistant", "content": self.text or 'a "usage" {' * completion}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        more = {"usage": usage} if self.reports_usage else {}
        return web.json_response({**answer, "choices": [choice], **more})

    async def _stream(
        self, request: web.Request, model: str, completion: int, usage: dict[str, Any]
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await answer.prepare(request)
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": model}
        pieces = [self.text[at : at + 4] for at in range(0, len(self.text), 4)]
        pieces = pieces or [f"{number} " for number in range(completion)]
        for number, piece in enumerate(pieces, start=1):
            finish = "stop" if number == len(pieces) else None
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": finish}
            self.completion_tokens += 1
            await answer.write(_event({**head, "choices": [choice]}))
            try:
                await asyncio.sleep(self.event_seconds)
            except asyncio.CancelledError:
                self.left_streams += 1
                raise
        if self.reports_usage:
            await answer.write(_event({**head, "choices": [], "usage": usage}))
        await answer.write(b"data: [DONE]\n\n")
        return answer


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
