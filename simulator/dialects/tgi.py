"""Text Generation Inference 3.3.7: chats and completions of its HTTP API.

Grammars, tools and log probabilities are refused: nothing of TGI is added since its upstream ended.
Read from its source at v3.3.7 (Apache-2.0): `router/src/server.rs`, `lib.rs`, `chat.rs`,
`validation.rs`.
"""

from typing import Any, cast

from aiohttp import web

from simulator.dialects.server import DialectServer, GenerationRequest, ask_of, check_simulated
from simulator.dialects.tgi_bodies import ChatEvents, CompletionEvents, reason, timings, whole_body
from simulator.dialects.tgi_fields import CHAT, COMPLETION, check, form_error
from simulator.dialects.tgi_flags import Settings, settle
from simulator.dialects.tgi_metrics import TgiMetrics
from simulator.engine.engine import Engine
from simulator.engine.request import Request
from simulator.server.bodies import answers, asks, messages, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.json_answers import json_response

__all__ = ["TgiServer", "make", "settle"]
_OVERLOADED = "overloaded"


def make(settings: Settings) -> tuple[Engine, "TgiServer"]:
    """Return an engine and its server."""
    longest = settings.deployment.max_model_len
    metrics = TgiMetrics(
        settings.deployment, longest_prompt=settings.longest_prompt, longest=longest
    )
    engine = Engine(settings.deployment, metrics=metrics)
    return engine, TgiServer(engine, settings, metrics)


class TgiServer(DialectServer):
    """The HTTP API of one TGI server.

    It treats `model` of a request as the name of an adapter. The base model answers unknown names,
    which here are all names.
    """

    software = None

    def __init__(self, engine: Engine, settings: Settings, metrics: TgiMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._open = 0
        super().__init__(engine, settings.port)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes that a client, a probe or a picker uses."""
        return [
            *(web.get(path, self._health) for path in ("/", "/health", "/ping")),
            web.get("/v1/models", self._models),
            web.get("/metrics", self._page),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/completions", self._completions),
        ]

    def failed(self, http: web.Request, error: ApiError) -> web.Response:
        """Return an error as TGI's `ErrorResponse`, or as plain text for a body that is not JSON.

        An error in a stream that has begun is an event with status 200.
        """
        if isinstance(error, _StreamError):
            event = {"error": {"message": error.message, "http_status_code": 422}}
            whole = answers.event(event) + b"data: [DONE]\n\n"
            headers = {"Content-Type": "text/event-stream", **self._headers}
            return web.Response(body=whole, headers=headers)
        if error.kind == "Bad Request":
            said = f"Failed to parse the request body as JSON: {error.message}"
            return web.Response(text=said, status=400)
        if error.kind == "form":
            said = "Failed to deserialize the JSON body into the target type: "
            return web.Response(text=said + error.message, status=422)
        body = {"error": error.message, "error_type": error.kind}
        return json_response(body, status=error.status)

    def unrouted(self, error: web.HTTPException) -> web.Response:
        """Return axum's response for an unknown path or method: an empty body."""
        return web.Response(status=error.status)

    def dead(self) -> ApiError:
        """Return the response if a shard is lost."""
        said = "Request failed during generation: Server error: transport error"
        return ApiError(424, said, kind="generation")

    async def _health(self, _http: web.Request) -> web.Response:
        if self._engine.dead:
            body = {"error": "unhealthy", "error_type": "healthcheck"}
            return json_response(body, status=503)
        return web.Response()

    async def _models(self, _http: web.Request) -> web.Response:
        model = self._deployment.model
        entry = {"id": model, "object": "model", "created": 0, "owned_by": model}
        return json_response({"object": "list", "data": [entry]})

    async def _page(self, _http: web.Request) -> web.Response:
        return web.Response(text=self._engine.page())

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        body = await asks.read_json(http)
        if "messages" not in body:
            raise form_error("missing field `messages`")
        check(body, CHAT)
        check_simulated(body, _NOT_SIMULATED)
        prompt = text.tokenize(messages.chat_text(body["messages"] or [{"role": "user"}]))
        ask = self._ask(body, self._name(body), prompt)
        options: asks.Json = body.get("stream_options") or {}
        if ask.stream:
            events = ChatEvents(ask, include_usage=bool(options.get("include_usage")))
            return await self._limited_stream(http, ask, events)
        request = await self._limited(ask)
        message = {"role": "assistant", "content": ask.text}
        choice: Any = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = reason(ask, request, "stop")
        return self.json(whole_body("chat.completion", ask, choice, request), **timings(request))

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        body = await asks.read_json(http)
        if "prompt" not in body:
            raise form_error("missing field `prompt`")
        check(body, COMPLETION)
        if not _is_prompt(body["prompt"]):
            raise form_error("prompt: data did not match any variant of untagged enum Prompt")
        if body.get("suffix") is not None:
            self._metrics.refused("validation")
            said = "Suffix is not supported and can be achieved by preprocessing the prompt."
            raise ApiError(422, said, kind="suffix not supported")
        prompts = asks.prompt_tokens(body["prompt"] or [[]])
        if len(prompts) != 1:
            raise ApiError(422, "one prompt a request on a simulated engine.", kind="validation")
        ask = self._ask(body, self._deployment.model, prompts[0])
        if ask.stream:
            return await self._limited_stream(http, ask, CompletionEvents(ask))
        request = await self._limited(ask)
        choice: Any = {"index": 0, "text": ask.text, "logprobs": None}
        choice["finish_reason"] = reason(ask, request, "eos_token")
        return self.json(whole_body("text_completion", ask, choice, request), **timings(request))

    def _name(self, body: asks.Json) -> str:
        """Return the model name of a response: the requested or the loaded name."""
        name = body.get("model")
        return self._deployment.model if name in (None, "tgi") else str(name)

    def _ask(self, body: asks.Json, name: str, prompt: list[int]) -> GenerationRequest:
        most: int | None = body.get("max_tokens", body.get("max_completion_tokens"))
        stops: list[str] = body.get("stop") or []
        stream = bool(body.get("stream"))
        problem = self._problem(body, prompt, most, stops)
        longest = self._deployment.max_model_len - len(prompt) if most is None else most
        self._metrics.asked()
        if problem:
            self._metrics.refused("validation")
            raise _refusal(422, f"Input validation error: {problem}", "validation", stream)
        self._metrics.read(len(prompt), longest)
        ignore_end = bool(body.get("ignore_eos"))
        return ask_of(name, prompt, longest, stops, ignore_end=ignore_end, stream=stream)

    def _problem(
        self, body: asks.Json, prompt: list[int], most: int | None, stops: list[str]
    ) -> str:
        """Return the error of `validation.rs` for a request; empty if it is valid."""
        longest, longest_prompt = self._deployment.max_model_len, self._settings.longest_prompt
        temperature, top_p = body.get("temperature"), body.get("top_p")
        limit, count = self._settings.most_stops, len(prompt)
        wanted = min(most, _CHUNK) if most is not None else 0
        found = {
            "`temperature` must be strictly positive": temperature is not None and temperature < 0,
            "`top_p` must be > 0.0 and < 1.0": top_p is not None and not 0 < top_p < 1,
            "`max_new_tokens` must be strictly positive": most == 0,
            f"`stop` supports up to {limit} stop sequences. Given: {len(stops)}": len(stops)
            > limit,
            "`inputs` cannot be empty": not prompt,
            f"`inputs` tokens + `max_new_tokens` must be <= {longest}. Given: {count} `inputs` "
            f"tokens and {wanted} `max_new_tokens`": count + wanted > longest,
            f"`inputs` must have less than {longest_prompt} tokens. Given: {count}": count
            > longest_prompt,
        }
        return next((problem for problem, is_so in found.items() if is_so), "")

    def _take(self, *, stream: bool) -> None:
        if self._open >= self._settings.concurrent:
            self._metrics.refused(_OVERLOADED)
            raise _refusal(429, "Model is overloaded", _OVERLOADED, stream)
        self._open += 1

    async def _limited(self, ask: GenerationRequest) -> Request:
        self._take(stream=False)
        try:
            (request,) = await self.whole([ask])
            return request
        finally:
            self._open -= 1

    async def _limited_stream(
        self, http: web.Request, ask: GenerationRequest, events: Any
    ) -> web.StreamResponse:
        self._take(stream=True)
        try:
            return await self.streamed(http, [(ask, events)])
        finally:
            self._open -= 1


_NOT_SIMULATED = ("logprobs", "response_format", "tools", "top_logprobs")
"""Fields of a chat that the simulation rejects."""
_CHUNK = 1024
"""Number of response tokens that are reserved at a time, `DEFAULT_GENERATION_LENGTH`."""


class _StreamError(ApiError):
    """A request whose stream consists only of its error."""


def _refusal(status: int, message: str, kind: str, is_stream: bool) -> ApiError:
    made = _StreamError if is_stream else ApiError
    return made(status, message, kind=kind)


def _is_prompt(prompt: Any) -> bool:
    """Return whether a prompt is a text or a list of texts."""
    items = cast(list[Any], prompt) if isinstance(prompt, list) else [prompt]
    return all(isinstance(item, str) for item in items)
