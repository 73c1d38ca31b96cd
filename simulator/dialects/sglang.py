"""SGLang 0.5.23: its HTTP API.

Read from the wheel of that release: `srt/entrypoints/http_server.py`, `srt/entrypoints/openai`,
`srt/managers/tokenizer_manager.py`.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from simulator.dialects.server import (
    DialectServer,
    GenerationRequest,
    ask_of,
    check_simulated,
)
from simulator.dialects.sglang_bodies import (
    DEFAULT_MODEL,
    Adapter,
    Answered,
    Chat,
    ChatEvents,
    Completion,
    CompletionEvents,
    Embedding,
    NoAdapter,
    Tokenized,
    extra_key,
    prompts_of,
    read_body,
    stops_of,
)
from simulator.dialects.sglang_flags import Settings, settle
from simulator.dialects.sglang_forms import (
    BAD,
    NOT_ROUTED,
    NOT_SIMULATED,
    choices_of,
    form_of,
    logprobs_of,
    protocol_error,
)
from simulator.dialects.sglang_metrics import SglangMetrics
from simulator.engine.engine import Engine
from simulator.engine.request import Request
from simulator.server.bodies import asks, text, vectors
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.fields import FieldError
from simulator.server.bodies.json_answers import json_response
from simulator.server.bodies.templates import prompt_text
from simulator.server.http_server import is_known_key

__all__ = ["SglangServer", "make", "settle"]
_HEALTH_SECONDS = 1.0
"""`/health` waits a second before it checks for a sign of life, even if the server is healthy."""
_HEALTH_LIMIT_SECONDS = 20.0
_DECODE_LOG_INTERVAL = 40


def make(settings: Settings) -> tuple[Engine, "SglangServer"]:
    """Return an engine and its server."""
    interval = settings.flags.decode_log_interval or _DECODE_LOG_INTERVAL
    metrics = SglangMetrics(
        settings.deployment, page_size=settings.page_size, interval=int(interval)
    )
    engine = Engine(settings.deployment, metrics=metrics)
    return engine, SglangServer(engine, settings)


class SglangServer(DialectServer):
    """The HTTP API of one SGLang server."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._settings = settings
        self._flags = settings.flags
        self._served = engine.deployment.served_names[0]
        self.adapters: dict[str, str] = dict(engine.deployment.adapters)
        self._is_ending = False
        super().__init__(engine, settings.port)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes that a client, a probe or a picker uses."""
        made = [
            *(web.get(path, self._health) for path in ("/health", "/health_generate")),
            *(web.get(path, self._ready) for path in ("/ready", "/ping")),
            web.get("/", self._root),
            web.get("/v1/models", self._models),
            web.get("/v1/models/{model:.+}", self._model),
            *(web.get(path, self._model_info) for path in ("/model_info", "/get_model_info")),
            web.post("/v1/completions", self._completions),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/embeddings", self._embeddings),
            *(web.post(path, self._tokenize) for path in ("/tokenize", "/v1/tokenize")),
            web.post("/load_lora_adapter", self._load_adapter),
            web.post("/unload_lora_adapter", self._unload_adapter),
            *(web.post(path, self._not_simulated) for path in NOT_ROUTED),
        ]
        return [*made, web.get("/metrics", self._metrics)] if self._flags.enable_metrics else made

    def failed(self, http: web.Request, error: ApiError) -> web.Response:
        """Return an error as SGLang's `ErrorResponse`."""
        body = {
            "object": "error",
            "message": error.message,
            "type": error.kind,
            "param": None if isinstance(error, FieldError) else error.param,
            "code": error.status,
        }
        if error.status == 401:
            body = {"error": "Unauthorized"}
        return json_response(body, status=error.status)

    def dead(self) -> ApiError:
        """Return the response if the scheduler is lost."""
        return ApiError(
            500, "Internal server error: the scheduler died", kind="InternalServerError"
        )

    def submit(self, ask: GenerationRequest) -> Request:
        """Queue a request, unless `--max-queued-requests` is reached."""
        limit: int | None = self._flags.max_queued_requests
        if limit is not None and len(self._engine.scheduler.waiting) >= limit:
            raise ApiError(503, "The request queue is full.", kind="503")
        return super().submit(ask)

    def _check(self, http: web.Request) -> None:
        key = self._flags.api_key
        if key and not is_known_key(http, [key]):
            raise ApiError(401, "Unauthorized")

    async def _health(self, _http: web.Request) -> web.Response:
        if self._is_ending:
            return web.Response(status=503)
        began = time.monotonic()
        while time.monotonic() < began + _HEALTH_LIMIT_SECONDS:
            await asyncio.sleep(_HEALTH_SECONDS)
            if not self._engine.dead:
                return web.Response()
        return web.Response(status=503)

    async def _ready(self, _http: web.Request) -> web.Response:
        return web.Response(status=503 if self._engine.dead or self._is_ending else 200)

    async def _root(self, _http: web.Request) -> web.Response:
        return json_response("SGLang is running")

    async def _metrics(self, _http: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=1.0.0; charset=utf-8"}
        return web.Response(body=self._engine.page().encode(), headers=headers)

    def _card(self, name: str, root: str, parent: str | None, longest: int | None) -> Any:
        return {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": root,
            "parent": parent,
            "max_model_len": longest,
        }

    async def _models(self, http: web.Request) -> web.Response:
        self._check(http)
        longest = self._deployment.max_model_len
        data = [self._card(self._served, self._served, None, longest)]
        data += [self._card(n, path, self._served, None) for n, path in self.adapters.items()]
        return json_response({"object": "list", "data": data})

    async def _model(self, http: web.Request) -> web.Response:
        self._check(http)
        name = http.match_info["model"]
        if name == self._served:
            longest = self._deployment.max_model_len
            return json_response(self._card(name, name, None, longest))
        error = {
            "message": f"The model '{name}' does not exist",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        return json_response({"error": error}, status=404)

    async def _model_info(self, http: web.Request) -> web.Response:
        self._check(http)
        return json_response(
            {
                "model_path": self._deployment.model,
                "served_model_name": self._served,
                "tokenizer_path": self._flags.tokenizer_path or self._deployment.model,
                "is_generation": not self._deployment.pooling,
                "preferred_sampling_params": None,
                "weight_version": "default",
            }
        )

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        self._check(http)
        body = await read_body(http, Completion)
        return await self._generate(http, body, prompts_of(body["prompt"]), is_chat=False)

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        self._check(http)
        body = await read_body(http, Chat)
        if not body["messages"]:
            raise ApiError(400, "Messages cannot be empty.")
        prompt = text.tokenize(prompt_text(body["messages"], self._deployment.chat_template))
        return await self._generate(http, body, [prompt], is_chat=True)

    async def _generate(
        self, http: web.Request, body: asks.Json, prompts: list[list[int]], *, is_chat: bool
    ) -> web.StreamResponse:
        if self._deployment.pooling:
            raise ApiError(400, "This model does not appear to be a generation model.", kind=BAD)
        check_simulated(body, NOT_SIMULATED)
        choices = list(self._asks(body, prompts, is_chat=is_chat))
        usage: asks.Json = body.get("stream_options") or {}
        if len(choices) > len(prompts):
            await self._fill_cache(choices[0], prompts)
        if choices[0].stream:
            kind = ChatEvents if is_chat else CompletionEvents
            wants = bool(usage.get("include_usage"))
            events = [(ask, kind(ask, include_usage=wants)) for ask in choices]
            return await self.streamed(http, events)
        requests = await self.whole(choices)
        reports_cache = bool(self._flags.enable_cache_report)
        return self.json(Answered(choices, requests, reports_cache).body(is_chat=is_chat))

    async def _fill_cache(self, choice: GenerationRequest, prompts: list[list[int]]) -> None:
        """Compute each prompt once without a token, as SGLang does before several choices."""
        for prompt in prompts:
            request = self._engine.submit(
                prompt,
                (),
                1,
                adapter=choice.adapter,
                salt=choice.salt,
                pooling=True,
                stream=False,
            )
            async for _ in self._engine.results(request):
                pass

    def _asks(
        self, body: asks.Json, prompts: list[list[int]], *, is_chat: bool
    ) -> Iterator[GenerationRequest]:
        """Return the request once per prompt and choice; choices are numbered through."""
        name = str(body.get("model") or DEFAULT_MODEL)
        more: dict[str, Any] = {
            "adapter": self._adapter(name, body),
            "form": form_of(body, has_parser=bool(self._flags.tool_call_parser)),
            "ignore_end": bool(body.get("ignore_eos")),
            "logprobs": logprobs_of(body, is_chat=is_chat),
            "priority": int(body.get("priority") or 0),
            "salt": extra_key(body),
            "stream": bool(body.get("stream")),
        }
        count = choices_of(body)
        for at, prompt in enumerate(prompts):
            most = self._longest(body, prompt, is_chat=is_chat)
            for choice in range(count):
                index = at * count + choice
                stops = stops_of(body)
                yield ask_of(name, prompt, most, stops, choice=choice, index=index, **more)

    def _adapter(self, name: str, body: asks.Json) -> str | None:
        """Return the adapter of a request, from `BASE:ADAPTER` or `lora_path`.

        The base model answers any other name, because SGLang does not check it.
        """
        found = body.get("lora_path")
        if ":" in name and name != self._served:
            own = name.startswith(f"{self._served}:")
            found = name[len(self._served) + 1 :] if own else name.partition(":")[2]
        if not found:
            return None
        adapter = str(found).strip()
        if not self._deployment.flags.enable_lora:
            raise ApiError(
                400,
                f"LoRA adapter '{adapter}' was requested, but LoRA is not enabled. Please launch "
                "the server with --enable-lora flag and preload adapters using --lora-paths or "
                "/load_lora_adapter endpoint.",
                kind=BAD,
            )
        if adapter not in self.adapters:
            known = ", ".join(map(repr, self.adapters))
            raise ApiError(
                400,
                f"Got LoRA adapter that has never been loaded: {adapter}\n"
                f"All loaded adapters: dict_keys([{known}]).",
                kind=BAD,
            )
        return adapter

    def _longest(self, body: asks.Json, prompt: list[int], *, is_chat: bool) -> int:
        """Return the maximum tokens of a response.

        Raises:
            ApiError: the request exceeds the context.
        """
        longest, context = self._settings.longest_request, self._deployment.max_model_len
        if len(prompt) >= context:
            raise ApiError(
                400,
                f"The input ({len(prompt)} tokens) is longer than the model's context length "
                f"({context} tokens).",
                kind=BAD,
            )
        if len(prompt) >= longest:
            raise ApiError(
                400,
                f"Input length ({len(prompt)} tokens) exceeds the maximum allowed length "
                f"({longest} tokens). Use a shorter input or enable --allow-auto-truncate.",
                kind="BAD_REQUEST",
            )
        asked: int | None = body.get("max_completion_tokens") or body.get("max_tokens")
        most = asked if is_chat or asked is not None else 16
        if most is not None and most <= 0:
            raise protocol_error("max_tokens", "Value error, max_tokens must be positive")
        if most is not None and most + len(prompt) > context:
            raise ApiError(
                400,
                "Requested token count exceeds the model's maximum context length of "
                f"{context} tokens. You requested a total of {most + len(prompt)} tokens: "
                f"{len(prompt)} tokens from the input messages and {most} tokens for the "
                "completion. Please reduce the number of tokens in the input messages or the "
                "completion to fit within the limit.",
                kind=BAD,
            )
        room = max(1, longest - len(prompt) - 1)
        return room if most is None else min(most, room)

    async def _embeddings(self, http: web.Request) -> web.Response:
        self._check(http)
        body = await read_body(http, Embedding)
        prompts = asks.prompt_tokens(body.get("input"), "input")
        if not self._deployment.pooling:
            raise ApiError(
                400,
                "This model does not appear to be an embedding model by default. Please add "
                "`--is-embedding` when launching the server or try another model.",
                kind=BAD,
            )
        for prompt in prompts:
            request = self._engine.submit(prompt, (), 1, pooling=True)
            async for _ in self._engine.results(request):
                pass
        data = [
            {"embedding": vectors.embedding(prompt, body.get("dimensions")), "index": index}
            | {"object": "embedding"}
            for index, prompt in enumerate(prompts)
        ]
        tokens = sum(map(len, prompts))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        model = str(body.get("model") or DEFAULT_MODEL)
        return self.json({"data": data, "model": model, "object": "list", "usage": usage})

    async def _tokenize(self, http: web.Request) -> web.Response:
        self._check(http)
        body = await read_body(http, Tokenized)
        if body.get("messages") is not None:
            chat = prompt_text(body["messages"], self._deployment.chat_template)
            tokens = text.tokenize(chat)
        else:
            tokens = prompts_of(body.get("prompt"))[0]
        longest = self._deployment.max_model_len
        return self.json({"tokens": tokens, "count": len(tokens), "max_model_len": longest})

    async def _load_adapter(self, http: web.Request) -> web.Response:
        self._check(http)
        body = await read_body(http, Adapter)
        name, path = str(body["lora_name"]), str(body["lora_path"])
        if not self._deployment.flags.enable_lora:
            return self._updated("LoRA is not enabled. Please set `--enable-lora` to enable LoRA.")
        if name in self.adapters:
            return self._updated(f"LoRA with name {name} already exists.")
        busy = self._engine.scheduler.adapters_running
        seconds = self._engine.adapters.load([name], busy)
        await self._engine.clock.sleep_until(self._engine.clock.now() + seconds)
        self.adapters[name] = path
        return self._updated("")

    async def _unload_adapter(self, http: web.Request) -> web.Response:
        self._check(http)
        name = str((await read_body(http, NoAdapter))["lora_name"])
        if self.adapters.pop(name, None) is None:
            return self._updated(f"LoRA with name {name} does not exist.")
        self._engine.adapters.forget(name)
        return self._updated("")

    def _updated(self, problem: str) -> web.Response:
        body = {
            "success": not problem,
            "error_message": problem,
            "loaded_adapters": dict(self.adapters),
        }
        return json_response(body, status=400 if problem else 200)

    async def _not_simulated(self, http: web.Request) -> web.Response:
        raise ApiError(501, f"{http.path} is not available on a simulated engine.", kind="501")

    async def stop(self) -> None:
        """Answer probes with 503, finish open requests, and exit."""
        self._is_ending = True
        await super().stop()
