"""Bodies that a simulated engine accepts, and the most tokens that it can report for each."""

import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.sizing.shapes import ModelShape
from simulator.server.bodies import fields, images, responses
from simulator.server.bodies.asks import CompletionRequest, Server, prompt_tokens, read_asks
from simulator.server.bodies.errors import ApiError

TABLE = Path(__file__).parents[3] / "workloads/gateway/internal/tokens/testdata/usage.json"
CONTEXT = 512
_BODIES = 300
_SEED = 20261128
_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
_PIECES = (
    "the ",
    "model",
    " 12345",
    "!?",
    "\n",
    "é",
    "你好",
    "\U0001f600",
    '"',
    "\\",
    "a.b.c",
    "\t",
)
_SHAPE = ModelShape(
    parameters_billion=8, active_billion=8, layers=32, kv_heads=8, head_dim=128, context=CONTEXT,
    vision=True, image_tokens=64,
)  # fmt: skip

Json = dict[str, Any]


@cache
def rows() -> list[Json]:
    """Return accepted bodies with the largest usage that the engine can report."""
    choose = random.Random(_SEED)
    found: list[Json] = []
    while len(found) < _BODIES:
        path, body = _body(choose)
        usage = _usage(path, body)
        if usage is not None:
            found.append({"path": path, "body": body, "prompt": usage[0], "answer": usage[1]})
    return found


def written() -> str:
    """Return the file's text: one row per line."""
    lines = (json.dumps(row, sort_keys=True) for row in rows())
    return f'{{"context": {CONTEXT}, "rows": [\n' + ",\n".join(lines) + "\n]}\n"


def _usage(path: str, body: Json) -> tuple[int, int] | None:
    """Return the most tokens of prompts and answers, or None if the engine refuses the body."""
    try:
        return _USAGE[path](json.loads(json.dumps(body)))
    except (ApiError, ValueError):
        return None


def _generated(asks: list[CompletionRequest]) -> tuple[int, int]:
    prompts = {id(ask.prompt): len(ask.prompt) for ask in asks}
    return sum(prompts.values()), sum(ask.max_tokens for ask in asks)


def _server() -> Server:
    return Server(CONTEXT, images.MediaSupport("m", _SHAPE))


def _chat(body: Json) -> tuple[int, int]:
    return _generated(read_asks(fields.checked(fields.VllmChat, body), "m", _server(), chat=True))


def _completion(body: Json) -> tuple[int, int]:
    form = fields.VllmCompletion
    return _generated(read_asks(fields.checked(form, body), "m", _server(), chat=False))


def _response(body: Json) -> tuple[int, int]:
    chat = responses.chat_of(
        fields.checked(fields.VllmResponse, body), CONTEXT, has_tool_parser=False
    )
    return _generated(read_asks(chat, "m", _server(), chat=True))


def _pooled(texts: Any) -> tuple[int, int]:
    prompts = prompt_tokens(texts, "input")
    if any(len(prompt) > CONTEXT for prompt in prompts):
        raise ValueError("longer than the context")
    return sum(map(len, prompts)), 0


def _embedding(body: Json) -> tuple[int, int]:
    return _pooled(fields.checked(fields.VllmEmbedding, body).get("input"))


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value


def _crossed(first: list[str], second: list[str]) -> tuple[int, int]:
    """Return what a cross-encoder reads: both texts of each pair."""
    ones = first * len(second) if len(first) == 1 else first
    if not second or len(ones) != len(second):
        raise ValueError("must be pairs")
    return _pooled([one + other for one, other in zip(ones, second, strict=True)])


def _score(body: Json) -> tuple[int, int]:
    read = fields.checked(fields.VllmScore, body)
    return _crossed(_listed(read["text_1"]), _listed(read["text_2"]))


def _rank(body: Json) -> tuple[int, int]:
    read = fields.checked(fields.VllmRank, body)
    return _crossed([read["query"]], _listed(read["documents"]))


_USAGE: dict[str, Callable[[Json], tuple[int, int]]] = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _completion,
    "/v1/embeddings": _embedding,
    "/v1/rerank": _rank,
    "/v1/responses": _response,
    "/v1/score": _score,
}


def _body(choose: random.Random) -> tuple[str, Json]:
    """Return a path and a random body, which the engine may refuse."""
    path = choose.choice(sorted(_USAGE))
    body: Json = {"model": "m"}
    if path == "/v1/completions":
        body |= {"prompt": _prompts(choose), "echo": choose.random() < 0.2}
    elif path == "/v1/chat/completions":
        body["messages"] = [_message(choose) for _ in range(choose.randint(1, 5))]
        if choose.random() < 0.2:
            body |= {"tools": [_tool(choose)], "tool_choice": "required"}
    elif path == "/v1/responses":
        items = [_message(choose) for _ in range(choose.randint(1, 3))]
        body["input"] = choose.choice([_text(choose), items])
        if choose.random() < 0.5:
            body["instructions"] = _text(choose)
    elif path == "/v1/embeddings":
        body["input"] = _prompts(choose)
    else:
        body |= _pair(choose, path)
    body |= dict(_limits(choose))
    return path, body


def _limits(choose: random.Random) -> Iterator[tuple[str, int | None]]:
    """Yield some of the fields for the length and the number of answers, in any order."""
    names = ["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of"]
    choose.shuffle(names)
    for name in names:
        if choose.random() < 0.4:
            most = 4 if name in ("n", "best_of") else CONTEXT
            yield name, choose.choice([None, 1, choose.randint(1, most)])
    if choose.random() < 0.1:
        yield "max_tokens", 0


def _text(choose: random.Random) -> str:
    return "".join(choose.choice(_PIECES) for _ in range(choose.randint(1, 60)))


def _ids(choose: random.Random) -> list[int]:
    return [choose.randint(0, 127_999) for _ in range(choose.randint(1, 60))]


def _prompts(choose: random.Random) -> Any:
    kind = choose.randrange(4)
    count = range(choose.randint(1, 4))
    if kind == 0:
        return _text(choose)
    if kind == 1:
        return [_text(choose) for _ in count]
    return _ids(choose) if kind == 2 else [_ids(choose) for _ in count]


def _message(choose: random.Random) -> Json:
    role = choose.choice(["system", "user", "assistant"])
    content: Any = _text(choose)
    if choose.random() < 0.3:
        content = [{"type": "text", "text": content}]
        if choose.random() < 0.3:
            content.append({"type": "image_url", "image_url": {"url": _IMAGE}})
    return {"role": role, "content": content}


def _tool(choose: random.Random) -> Json:
    function = {"name": "f", "description": _text(choose), "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


def _pair(choose: random.Random, path: str) -> Json:
    many = [_text(choose) for _ in range(choose.randint(1, 4))]
    if path == "/v1/rerank":
        return {"query": _text(choose), "documents": many}
    one, other = choose.choice(
        [("text_1", "text_2"), ("queries", "documents"), ("data_1", "data_2")]
    )
    first = choose.choice([_text(choose), [_text(choose) for _ in many]])
    return {one: first, other: many}
