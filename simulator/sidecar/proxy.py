"""The sidecar's protocol: first the prompt to the prefilling engine, then all to the local engine.

It follows llm-d-routing-sidecar v0.8.0 (pkg/sidecar/proxy: chat_completions.go,
connector_nixlv2.go, proxy_helpers.go). Without the header, and for every other path, it only
forwards requests. A prefilling engine that is lost or returns a server error does not fail the
request: the local engine computes the prompt itself.
"""

import json
import logging
import uuid
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, web

PREFILL_HEADER = "x-prefiller-host-port"
COMPLETIONS = ("/v1/chat/completions", "/v1/completions")
_log = logging.getLogger("routing-sidecar")
_LARGEST_BODY = 64 * 2**20
_TOKEN_LIMITS = ("max_completion_tokens", "max_tokens")
# set by aiohttp itself, or specific to the encoding of one hop
_HOP = {"connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade"}


class Sidecar:
    """A proxy in front of one engine.

    Args:
        decoder: address of the decoding engine, such as `http://127.1.2.3:8200`.
    """

    def __init__(self, decoder: str) -> None:
        self._decoder = decoder
        self._session: ClientSession | None = None
        self.app = web.Application(client_max_size=_LARGEST_BODY)
        self.app.router.add_get("/health", self._health)
        for path in COMPLETIONS:
            self.app.router.add_post(path, self._complete)
        self.app.router.add_route("*", "/{path:.*}", self._pass)
        self.app.cleanup_ctx.append(self._with_session)

    async def _with_session(self, _app: web.Application) -> AsyncIterator[None]:
        # a response can take hours, so only the connection has a timeout
        timeout = ClientTimeout(total=None, sock_connect=5)
        async with ClientSession(timeout=timeout, auto_decompress=False) as self._session:
            yield

    def _client(self) -> ClientSession:
        if self._session is None:
            raise RuntimeError("the sidecar has not started")
        return self._session

    async def _health(self, _http: web.Request) -> web.Response:
        return web.Response()

    async def _pass(self, http: web.Request) -> web.StreamResponse:
        return await self._decode(http, await http.read())

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        original = await http.read()
        prefiller = http.headers.get(PREFILL_HEADER, "").split(",")[0].strip()
        if not prefiller:
            return await self._decode(http, original)
        try:
            body = json.loads(original)
        except ValueError as error:
            return web.json_response({"error": {"message": str(error), "code": 400}}, status=400)
        number = str(uuid.uuid4())
        status, answer = await self._prefill(http, prefiller, body, number)
        if 400 <= status <= 451:
            return web.Response(
                body=answer, status=status, headers={"Content-Type": "application/json"}
            )
        if not 200 <= status < 300:
            _log.info("prefill at %s failed with %s: fallback to decode", prefiller, status)
            return await self._decode(http, original)
        params = json.loads(answer).get("kv_transfer_params")
        body["kv_transfer_params"] = params
        return await self._decode(http, json.dumps(body).encode(), number)

    async def _prefill(
        self, http: web.Request, prefiller: str, body: dict[str, Any], number: str
    ) -> tuple[int, bytes]:
        """Request the prefill; return status and body, 502 without a response."""
        asked = {key: value for key, value in body.items() if key != "stream_options"}
        asked |= dict.fromkeys(_TOKEN_LIMITS, 1)
        asked["stream"] = False
        asked["kv_transfer_params"] = {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        }
        url = f"http://{prefiller}{http.path}"
        headers = _headers(http, number)
        try:
            async with self._client().post(url, json=asked, headers=headers) as answer:
                return answer.status, await answer.read()
        except (ClientError, OSError) as error:
            _log.warning("prefill at %s: %s", prefiller, error)
            return 502, b""

    async def _decode(
        self, http: web.Request, body: bytes, number: str | None = None
    ) -> web.StreamResponse:
        """Forward a request to the local engine, and stream its response back."""
        url = f"{self._decoder}{http.path_qs}"
        try:
            answer = await self._client().request(
                http.method, url, data=body or None, headers=_headers(http, number)
            )
        except (ClientError, OSError) as error:
            _log.warning("decoder: %s", error)
            problem = {"error": {"message": "Decoder is not available", "code": 503}}
            return web.json_response(problem, status=503)
        async with answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(http)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def _headers(http: web.Request, number: str | None) -> dict[str, str]:
    dropped = _HOP | {PREFILL_HEADER}
    kept = {key: value for key, value in http.headers.items() if key.lower() not in dropped}
    return kept if number is None else {**kept, "x-request-id": number}
