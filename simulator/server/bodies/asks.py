"""Requests of the OpenAI API for text: parsing and validation."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web

from simulator.server.bodies import log_probabilities, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.images import MediaSupport, chat_prompt
from simulator.server.bodies.structured import Form, form_of
from simulator.server.bodies.text import until_stop

Json = dict[str, Any]
_MOST_CHOICES = 16384
"""vLLM's default of VLLM_MAX_N_SEQUENCES, which a simulated engine does not read."""


@dataclass(frozen=True)
class Details:
    """What a response says beside its text."""

    echo: bool = False
    """Whether the text of a completion begins with the prompt."""
    logprobs: int | None = None
    """Number of alternatives with their log probabilities for each token; None for no
    probabilities at all, 0 for those of the tokens alone."""
    prompt_logprobs: int | None = None
    """The same for the tokens of the prompt."""

    @property
    def needs_prompt(self) -> bool:
        """Whether the text of the prompt's tokens is needed."""
        return self.echo or self.prompt_logprobs is not None


@dataclass(frozen=True)
class CompletionRequest:
    """A validated generation request."""

    model: str
    prompt: list[int]
    max_tokens: int
    output: list[str]
    """The chunks of the response."""
    stopped_by: str | None
    chat: bool
    stream: bool
    usage_chunk: bool
    continuous_usage: bool
    priority: int
    salt: str = ""
    """Value that requests must have in common to share a prefix (`cache_salt`)."""
    index: int = 0
    """Index of the choice, if the request asked for several."""
    form: Form | None = None
    """Required form of the response; None for text."""
    prompt_pieces: list[str] = field(default_factory=list[str])
    """Text of each token of the prompt, if the response repeats or judges it."""
    details: Details = Details()


async def read_json(request: web.Request) -> Json:
    """Return the body.

    Raises:
        ApiError: the body is not a JSON object.
    """
    raw = await request.read()
    try:
        body = json.loads(raw)
    except ValueError as error:
        where = getattr(error, "pos", 0)
        found = f"'msg': 'JSON decode error', 'ctx': {{'error': '{getattr(error, 'msg', error)}'}}"
        raise invalid(f"body.{where}" if raw else "body", "json_invalid", found) from error
    if not isinstance(body, dict):
        raise invalid(
            "body", "model_attributes_type", "'msg': 'Input should be a valid dictionary'"
        )
    return body


def invalid(where: str, kind: str, found: str) -> ApiError:
    """Return the response to an invalid body."""
    message = f"1 validation error:\n  {{'type': '{kind}', 'loc': '{where}', {found}}}"
    return ApiError(400, message, param=where, kind="Bad Request")


def _field(
    body: Json, name: str, accept: Callable[[Any], bool], rule: str, default: Any = None
) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if not accept(value):
        raise ApiError(400, f"{name} must be {rule}, got {value!r}.", param=name)
    return value


def salt_in(body: Json) -> str:
    """Return the `cache_salt` of a body, empty for none.

    Raises:
        ApiError: it is not a text, or empty; with vLLM's message.
    """
    salt = body.get("cache_salt")
    if salt is None:
        return ""
    if not isinstance(salt, str) or not salt:
        said = "Parameter 'cache_salt' must be a non-empty string if provided."
        raise ApiError(400, said, param="cache_salt")
    return salt


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    )


def _integer(low: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is_strings(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))
    )


def _refuse(body: Json) -> None:
    """Reject what the simulation does not support, instead of ignoring it."""
    if body.get("suffix"):
        raise ApiError(
            400, "suffix is only supported for models with FIM completion rendering", param="suffix"
        )
    if body.get("use_beam_search"):
        said = "use_beam_search is not available on a simulated engine."
        raise ApiError(400, said, param="use_beam_search")


def given_prompts(prompt: Any, name: str = "prompt") -> list[str] | list[list[int]]:
    """Return the prompts of a request, each as a text or as tokens.

    Raises:
        ApiError: the input is not a text, a list of texts, a list of tokens or a list of those.
    """
    if isinstance(prompt, str):
        return [prompt]
    if prompt == []:
        raise ApiError(400, "You must pass at least one prompt")
    if isinstance(prompt, list):
        items = cast(list[Any], prompt)
        if all(isinstance(item, str) for item in items):
            return items
        if all(isinstance(item, int) for item in items):
            return [items]
        if all(isinstance(item, list) for item in items):
            return [list(map(int, item)) for item in items]
    raise ApiError(400, f"{name} must be a text, a list of texts, or token numbers.", param=name)


def prompt_tokens(prompt: Any, name: str = "prompt") -> list[list[int]]:
    """Return the prompts of a completion or embedding request as tokens.

    Raises:
        ApiError: as `given_prompts`.
    """
    return [_tokens(given) for given in given_prompts(prompt, name)]


def _tokens(given: str | list[int]) -> list[int]:
    return text.tokenize(given) if isinstance(given, str) else given


def _pieces(given: str | list[int]) -> list[str]:
    return text.pieces(given) if isinstance(given, str) else list(map(text.piece_of, given))


@dataclass(frozen=True)
class Server:
    """What a server's settings mean for its requests."""

    longest: int
    """Value of `--max-model-len`."""
    media: MediaSupport
    has_auto_tools: bool = False
    """Whether the server can choose a tool by itself."""
    most_logprobs: int = log_probabilities.MOST
    """Value of `--max-logprobs`; -1 means no limit."""


def read_asks(body: Json, model: str, server: Server, *, chat: bool) -> list[CompletionRequest]:
    """Validate a generation request, and return it once per choice.

    Each of several prompts has `n` choices; choices are numbered through.

    Args:
        body: body of the request.
        model: name of the responding model.
        server: settings of the server.
        chat: whether it has messages instead of a prompt.

    Raises:
        ApiError: the request is not valid; with vLLM's status.
    """
    _refuse(body)
    texts: Sequence[str | list[int]] = (
        [chat_prompt(body.get("messages"), server.media)]
        if chat
        else given_prompts(body.get("prompt"))
    )
    _field(body, "temperature", _number(0, 100), "between 0 and 100")
    _field(body, "top_p", _number(1e-9, 1), "in (0, 1]")
    details = _details(body, server.most_logprobs, chat=chat)
    stops = _field(body, "stop", _is_strings, "a text or a list of texts", [])
    form = form_of(body, has_auto_tools=server.has_auto_tools) if chat else None
    options = _stream_options(body)
    common: Json = {
        "model": model,
        "chat": chat,
        "stream": bool(body.get("stream")),
        "usage_chunk": bool(options.get("include_usage")),
        "continuous_usage": bool(
            options.get("include_usage") and options.get("continuous_usage_stats")
        ),
        "priority": int(_field(body, "priority", _integer(-(2**31)), "an integer", 0)),
        "salt": salt_in(body),
        "form": form,
        "details": details,
    }
    asks: list[CompletionRequest] = []
    for given in texts:
        prompt = _tokens(given)
        check_length(prompt, server.longest)
        most = _longest_answer(
            body, len(prompt), server.longest, chat=chat, is_only_echo=details.echo and not chat
        )
        for choice in range(_choices(body)):
            if form is None:
                ignore_end = bool(body.get("ignore_eos"))
                pieces = text.answer(model, prompt, most, ignore_end=ignore_end, choice=choice)
            else:
                pieces = text.pieces(form.text)[:most]
            pieces, stopped = until_stop(pieces, [stops] if isinstance(stops, str) else stops)
            asks.append(
                CompletionRequest(
                    prompt=prompt,
                    prompt_pieces=_pieces(given) if details.needs_prompt else [],
                    max_tokens=max(1, most),
                    output=pieces if most else [""],
                    stopped_by=stopped,
                    index=len(asks),
                    **common,
                )
            )
    return asks


def _details(body: Json, most: int, *, chat: bool) -> Details:
    """Return what a response must say beside the text. The messages are vLLM's."""
    of_prompt: int | None = body.get("prompt_logprobs")
    if of_prompt is not None:
        if body.get("stream") and (of_prompt > 0 or of_prompt == -1):
            said = "`prompt_logprobs` are not available when `stream=True`."
            raise ApiError(400, f"{said} (parameter=prompt_logprobs)", param="prompt_logprobs")
        of_prompt = log_probabilities.check(of_prompt, "prompt_logprobs", "prompt", most)
    name = "top_logprobs" if chat else "logprobs"
    count: int | None = body.get(name)
    if chat and not body.get("logprobs"):
        if count:
            said = "when using `top_logprobs`, `logprobs` must be set to true."
            raise ApiError(400, f"{said} (parameter=top_logprobs)", param="top_logprobs")
        count = None
    elif count is not None or chat:
        count = log_probabilities.check(count or 0, name, "sample", most)
    echo = bool(body.get("echo"))
    if echo and of_prompt is None and not body.get("stream") and (chat or count is not None):
        of_prompt = count or 0  # vLLM's requests with `echo` ask for those of the prompt as well
    return Details(echo=echo, logprobs=count, prompt_logprobs=of_prompt)


def _choices(body: Json) -> int:
    """Return the number of choices. The messages are those of vLLM's SamplingParams."""
    count = body.get("n")
    if count is None:
        return 1
    if count < 1:
        raise ApiError(400, f"n must be at least 1, got {count}.")
    if count > _MOST_CHOICES:
        message = (
            f"n must be at most {_MOST_CHOICES}, got {count}. To increase this limit, set the "
            "VLLM_MAX_N_SEQUENCES environment variable."
        )
        raise ApiError(400, message)
    if count > 1 and body.get("temperature") == 0:
        message = f"n must be 1 when using greedy sampling, got {count}."
        raise ApiError(400, message)
    return int(count)


def _longest_answer(
    body: Json, prompt: int, longest: int, *, chat: bool, is_only_echo: bool = False
) -> int:
    """Return the maximum response tokens; reject a request that exceeds the context.

    A completion with `echo` can ask for no tokens, which returns the prompt alone.
    """
    if is_only_echo and body.get("max_tokens") == 0:
        return 0
    most: Any = None
    if chat:
        most = _field(body, "max_completion_tokens", _integer(1), "at least 1")
    if most is None:
        default = longest - prompt if chat else 16
        most = _field(body, "max_tokens", _integer(1), "at least 1", default)
    if prompt + int(most) > longest:
        raise ApiError(
            400,
            f"'max_tokens' or 'max_completion_tokens' is too large: {most}. This model's maximum "
            f"context length is {longest} tokens and your request has {prompt} input tokens "
            f"({most} > {longest} - {prompt}).",
            param="max_tokens",
        )
    return int(most)


def _stream_options(body: Json) -> Json:
    options: Json = body.get("stream_options") or {}
    if options and not body.get("stream"):
        raise ApiError(
            400,
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            param="stream_options",
        )
    return options


def check_length(prompt: list[int], longest: int, output: int = 1) -> None:
    """Reject a prompt that leaves no room in the context.

    Raises:
        ApiError: 400 with vLLM's message.
    """
    if not prompt:
        raise ApiError(400, "The decoder prompt cannot be empty", param="prompt")
    if len(prompt) > longest - output:
        raise ApiError(
            400,
            f"This model's maximum context length is {longest} tokens. However, your prompt "
            f"contains {len(prompt)} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt.",
            param="input_tokens",
        )
