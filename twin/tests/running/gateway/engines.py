"""Fake model servers: one thread answers for every pod address given to it."""

import asyncio
import json
import threading
from typing import Any

from aiohttp import web

METRICS = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{model_name="m"}} {waiting}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="m"}} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{model_name="m"}} {kv}
"""


class Engines:
    """OpenAI-like servers on loopback addresses, and what they were asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        """(address, path, model) of every request."""
        self.headers: list[dict[str, str]] = []
        self.metrics: dict[str, dict[str, float]] = {}
        self.delay_seconds: dict[str, float] = {}
        self.status: dict[str, int] = {}
        """Status with which an address refuses every request."""
        self.generated: dict[str, int] = {}
        """Pieces of a streamed answer made so far, by the request's header `x-name`."""
        self.text = ""
        """What completions say; empty: answers have no choices."""
        self.aborted: set[str] = set()
        """header `x-name` of requests whose client went away before the answer was complete."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runners: dict[str, web.AppRunner] = {}

    def serve(self, address: str, port: int = 8000) -> None:
        """Answer on an address."""
        self._run(self._serve(address, port))

    def end(self, address: str) -> None:
        """Stop answering on an address."""
        runner = self._runners.pop(address)
        self._run(runner.cleanup())

    def close(self) -> None:
        """Stop everything."""
        for address in list(self._runners):
            self.end(address)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    async def _serve(self, address: str, port: int) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        await web.TCPSite(runner, address, port).start()
        self._runners[address] = runner

    @staticmethod
    def _address(request: web.Request) -> str:
        assert request.transport is not None
        return str(request.transport.get_extra_info("sockname")[0])

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        values = {"waiting": 0, "kv": 0, **self.metrics.get(self._address(request), {})}
        return web.Response(text=METRICS.format(**values))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        address = self._address(request)
        body = await request.read()
        asked: dict[str, Any] = json.loads(body) if body else {}
        self.seen.append((address, request.path, asked.get("model", "")))
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        if address in self.status:
            return web.json_response({"served_by": address}, status=self.status[address])
        try:
            return await self._generate(request, address, body, asked)
        except (asyncio.CancelledError, ConnectionError):
            self.aborted.add(request.headers.get("x-name", ""))
            raise

    async def _generate(
        self, request: web.Request, address: str, body: bytes, asked: dict[str, Any]
    ) -> web.StreamResponse:
        await asyncio.sleep(self.delay_seconds.get(address, 0))
        if not asked.get("stream"):
            answer = {"served_by": address, "model": asked.get("model"), "path": request.path}
            answer["size"] = len(body)
            if self.text:
                answer["choices"] = [{"index": 0, "text": self.text, "finish_reason": "stop"}]
                answer["usage"] = {"total_tokens": len(self.text)}
            return web.json_response(answer)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        name = request.headers.get("x-name", "")
        for at in range(0, len(self.text), 8):
            choice = {"index": 0, "text": self.text[at : at + 8], "finish_reason": None}
            await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        for number in range(0 if self.text else int(asked.get("max_tokens", 3))):
            self.generated[name] = number + 1
            piece = json.dumps({"n": number, "served_by": address})
            await response.write(f"data: {piece}\n\n".encode())
            await asyncio.sleep(float(asked.get("gap", 0.1)))
        await response.write(b"data: [DONE]\n\n")
        return response
