"""Triton 26.06 with TensorRT-LLM: the flags of its OpenAI front end, and its HTTP API.

Read from triton-inference-server/server `python/openai/openai_frontend` at v2.70.0 (BSD-3-Clause):
`main.py`, `engine/triton_engine.py`, `frontend/fastapi/routers`, `schemas/openai.py`.
"""

import argparse
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from aiohttp import web

from simulator.dialects import triton_bodies
from simulator.dialects.flags import CommandLine
from simulator.dialects.server import DialectServer, GenerationRequest, ask_of, check_simulated
from simulator.dialects.triton_forms import form_of, has_guide
from simulator.dialects.triton_metrics import BATCHER, TritonMetrics
from simulator.engine.engine import Engine
from simulator.engine.request import Request
from simulator.engine.settings import Deployment, EngineError, Surroundings, deploy
from simulator.server.bodies import asks, fields, messages, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.json_answers import json_response
from simulator.server.bodies.structured import Form
from twin.engines import vllm_flags

_LINE = CommandLine("triton", "main.py")
_PORT = 9000
_MOST_TOKENS = 16
_NO_LOGPROBS = "logprobs are currently available only for the vLLM backend"
_NOT_SIMULATED = ("echo", "function_call", "functions")
_BATCH = re.compile(r"^max_batch_size:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Settings:
    """A server's command line, model repository and settings."""

    flags: argparse.Namespace
    deployment: Deployment
    models: tuple[str, ...]
    port: int
    most_tokens: int
    has_guide: bool
    """Whether the engine was built to follow a schema."""


def settle(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the arguments of `openai_frontend/main.py`.

    Parallelism, batch size and memory belong to the built engine, which is assumed to fill the
    accelerators of its pod. The model's size comes from the name that clients use, or from its
    tokenizer's folder.

    Raises:
        EngineError: Triton would not start.
        SystemExit: status 2 with argparse's message.
    """
    flags = _LINE.parse(argv, model_repository=True)
    surroundings = Surroundings.of(environment)
    folder = surroundings.host_path(flags.model_repository) or Path(flags.model_repository)
    if not folder.is_dir():
        raise EngineError(
            "failed to stat file " + str(flags.model_repository) + ": No such file or directory"
        )
    models = tuple(sorted(file.parent.name for file in folder.glob("*/config.pbtxt")))
    named = [name for name in models if name not in _PARTS]
    devices = surroundings.chips * surroundings.accelerator.devices_per_chip
    batcher = folder / BATCHER / "config.pbtxt"
    found = _BATCH.search(batcher.read_text()) if batcher.exists() else None
    words: dict[str, object] = {
        "model": flags.tokenizer or (named[0] if named else flags.model_repository),
        "tensor-parallel-size": devices,
        "max-model-len": -1,
        "max-num-seqs": max(1, int(found.group(1))) if found else None,
    }
    made = [f"--{name}={value}" for name, value in words.items() if value is not None]
    if named:
        made += ["--served-model-name", named[0]]
    return Settings(
        flags,
        deploy(vllm_flags.parse(made), environment),
        models,
        _LINE.whole("openai-port", flags.openai_port, _PORT),
        _LINE.whole("default-max-tokens", flags.default_max_tokens, _MOST_TOKENS),
        has_guide(batcher.read_text()) if batcher.exists() else False,
    )


_PARTS = {BATCHER, "preprocessing", "postprocessing"}
"""Models in a repository that the model with the client's name uses."""


def make(settings: Settings) -> tuple[Engine, "TritonServer"]:
    """Return an engine and its server."""
    metrics = TritonMetrics(settings.deployment, settings.models)
    engine = Engine(settings.deployment, metrics=metrics)
    return engine, TritonServer(engine, settings)


class TritonServer(DialectServer):
    """The HTTP API of Triton's OpenAI front end."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._settings = settings
        self._loaded_at = int(time.time())
        super().__init__(engine, settings.port)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the front end."""
        return [
            web.get("/health/ready", self._ready),
            web.get("/metrics", self._metrics),
            web.get("/v1/models", self._models),
            web.get("/v1/models/{model}", self._model),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/completions", self._completions),
            web.post("/v1/embeddings", self._embeddings),
        ]

    def failed(self, http: web.Request, error: ApiError) -> web.Response:
        """Return an error as FastAPI's `detail`."""
        detail: Any = error.message
        if isinstance(error, fields.FieldError):
            return json_response({"detail": error.found}, status=422)
        if error.kind == "Bad Request":
            where = error.param or ""
            detail = [{"type": "value_error", "loc": ["body", where], "msg": error.message}]
            return json_response({"detail": detail}, status=422)
        return json_response({"detail": detail}, status=error.status)

    def dead(self) -> ApiError:
        """Return the response if the backend is lost."""
        return ApiError(500, "Executor is shutting down")

    async def _ready(self, _http: web.Request) -> web.Response:
        if self._engine.dead:
            raise ApiError(400, "Attached inference engine is not ready for inference requests.")
        return web.Response()

    async def _metrics(self, _http: web.Request) -> web.Response:
        return web.Response(text=self._engine.page())

    def _card(self, name: str) -> Any:
        owner = "Triton Inference Server"
        return {"id": name, "created": self._loaded_at, "object": "model", "owned_by": owner}

    async def _models(self, _http: web.Request) -> web.Response:
        data = [self._card(name) for name in self._settings.models]
        return json_response({"object": "list", "data": data})

    async def _model(self, http: web.Request) -> web.Response:
        name = http.match_info["model"]
        if name not in self._settings.models:
            raise ApiError(404, f"Unknown model: {name}")
        return json_response(self._card(name))

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        body = fields.checked(triton_bodies.Chat, await asks.read_json(http))
        self._check(body, "logit bias is not currently supported")
        if body.get("logprobs") or body.get("top_logprobs") is not None:
            raise ApiError(400, _NO_LOGPROBS)
        form = form_of(
            body,
            has_parser=bool(self._settings.flags.tool_call_parser),
            is_guided=self._settings.has_guide,
        )
        self._check_stream(body)
        most = body.get("max_completion_tokens")
        most = body.get("max_tokens") if most is None else most
        prompt = text.tokenize(messages.chat_text(body["messages"]))
        ask = self._ask(body, prompt, most, form)
        if ask.stream:
            return await self._stream(http, body, ask, is_chat=True)
        (request,) = await self.whole([ask])
        message: Any = {"role": "assistant", "content": ask.text, "tool_calls": None}
        choice = {"finish_reason": "stop", "index": 0, "message": message, "logprobs": None}
        made = _body("chat.completion", ask, choice, _usage(ask, request.generated))
        if form is not None:
            function = {"name": form.tool, "arguments": ask.text}
            call = {"id": made["id"], "type": "function", "function": function}
            message |= {"content": "", "tool_calls": [call]}
        return self.json(made)

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        body = fields.checked(triton_bodies.Completion, await asks.read_json(http))
        self._check_model(body)
        prompt = body["prompt"]
        if body.get("suffix") is not None:
            raise ApiError(400, "suffix is not currently supported")
        if not prompt:
            raise ApiError(400, "prompt must be non-empty")
        if not isinstance(prompt, str):
            raise ApiError(400, "only single string input is supported")
        self._check(body, "logit bias is not supported")
        if (body.get("logprobs") or 0) > 0:
            raise ApiError(400, _NO_LOGPROBS)
        self._check_stream(body)
        ask = self._ask(body, text.tokenize(prompt), body.get("max_tokens"))
        if ask.stream:
            return await self._stream(http, body, ask, is_chat=False)
        (request,) = await self.whole([ask])
        choice = {"finish_reason": "stop", "index": 0, "logprobs": None, "text": ask.text}
        return self.json(_body("text_completion", ask, choice, _usage(ask, request.generated)))

    async def _embeddings(self, http: web.Request) -> web.Response:
        body = fields.checked(triton_bodies.Embedding, await asks.read_json(http))
        if body["model"] not in self._settings.models:
            raise ApiError(400, f"Unknown model: {body['model']}")
        said = "TRT-LLM backend and Python backend do not support embedding requests"
        raise ApiError(400, said)

    def _check_model(self, body: asks.Json) -> None:
        if body["model"] not in self._settings.models:
            raise ApiError(400, f"Unknown model: {body['model']}")

    def _check(self, body: asks.Json, no_bias: str) -> None:
        """Reject what the front end rejects, in its order."""
        self._check_model(body)
        for name in ("n", "best_of"):
            if (body.get(name) or 1) > 1:
                count = f"{name}={body[name]}"
                said = f"Received {count}, but only single choice ({name}=1) is currently supported"
                raise ApiError(400, said)
        if body.get("logit_bias") is not None:
            raise ApiError(400, no_bias)

    def _check_stream(self, body: asks.Json) -> None:
        if body.get("stream_options") and not body.get("stream"):
            raise ApiError(400, "`stream_options` can only be used when `stream` is True")

    def _ask(
        self, body: asks.Json, prompt: list[int], most: int | None, form: Form | None = None
    ) -> GenerationRequest:
        check_simulated(body, _NOT_SIMULATED)
        longest = self._deployment.max_model_len
        wanted = self._settings.most_tokens if most is None else most
        if len(prompt) >= longest:
            raise ApiError(
                500,
                f"Prompt length ({len(prompt)}) exceeds maximum input length ({longest - 1}). Set "
                "log level to info and check TRTGptModel logs for how maximum input length is set",
            )
        found: Any = body.get("stop") or []
        stops = [found] if isinstance(found, str) else [str(e) for e in cast(list[Any], found)]
        return ask_of(
            str(body["model"]),
            prompt,
            max(1, min(wanted, longest - len(prompt))),
            stops,
            form=form,
            ignore_end=bool(body.get("ignore_eos")),
            stream=bool(body.get("stream")),
        )

    async def _stream(
        self, http: web.Request, body: asks.Json, ask: GenerationRequest, *, is_chat: bool
    ) -> web.StreamResponse:
        options: asks.Json = body.get("stream_options") or {}
        wants = bool(options.get("include_usage"))
        events = _Events(ask, is_chat=is_chat, include_usage=wants)
        return await self.streamed(http, [(ask, events)])


def _usage(ask: GenerationRequest, generated: int) -> Any:
    prompt = len(ask.prompt)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + generated,
        "completion_tokens": generated,
    }


def _body(kind: str, ask: GenerationRequest, choice: Any, usage: Any) -> Any:
    return {
        "id": f"cmpl-{uuid.uuid1()}",
        "choices": [choice],
        "created": int(time.time()),
        "model": ask.model,
        "system_fingerprint": None,
        "object": kind,
        "usage": usage,
    }


class _Events:
    """A streamed response, which ends with `stop` even at the token limit."""

    def __init__(self, ask: GenerationRequest, *, is_chat: bool, include_usage: bool) -> None:
        self._is_chat = is_chat
        self._include_usage = include_usage
        self._ask = ask
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        self._head: asks.Json = {**_body(kind, ask, None, None), "choices": []}

    def _event(self, delta: Any, reason: str | None) -> Any:
        choice: Any = {"finish_reason": reason, "index": 0, "logprobs": None}
        choice |= {"delta": delta} if self._is_chat else {"text": delta["content"]}
        return {**self._head, "choices": [choice]}

    def opening(self) -> list[Any]:
        """Return the role of a chat."""
        return [self._event({"role": "assistant", "content": ""}, None)] if self._is_chat else []

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the event of some tokens; those of a call repeat its name."""
        part: str = "".join(pieces)
        delta: Any = {"content": part}
        if self._ask.form is not None:
            function = {"name": self._ask.form.tool, "arguments": part}
            delta = {"tool_calls": [{"index": 0, "function": function}]}
        return [self._event(delta, "stop" if request.finished else None)]

    def closing(self, request: Request) -> list[Any]:
        """Return nothing."""
        return []

    def ending(self, requests: Sequence[Request]) -> list[Any]:
        """Return the usage if requested."""
        if not self._include_usage:
            return []
        return [{**self._head, "usage": _usage(self._ask, requests[0].generated)}]
