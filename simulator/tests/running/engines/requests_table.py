"""Requests with equal responses of the real and the simulated server: status, keys and types."""

import json
from dataclasses import dataclass, field
from typing import Any

MODEL = "llama-3.1-8b"
LONGEST = 1024
CHAT = [{"role": "user", "content": "How does a batch work?"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
INPUT_PARTS = [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"enum": ["x", "y"]}},
    "required": ["a"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "name": "answer", "schema": PARAMETERS}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": PARAMETERS}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}
CALL = {"type": "function", "function": {"name": "look"}}
TYPED = {"name": "look", "input_schema": PARAMETERS}
FORCED = {
    "tools": [{"type": "function", "name": "look", "parameters": PARAMETERS}],
    "tool_choice": {"type": "function", "name": "look"},
    "ignore_eos": False,
}
AS_JSON = {"text": {"format": FORMAT}, "max_output_tokens": 100, "ignore_eos": False}
PRINTED = {"logprobs": True, "allowed_token_ids": [100, 101]}
"""Only letters: bytes that are no character alone have no event in a stream."""
LOGPROBS = ["message.output_text.logprobs"]
NOWHERE = {"lora_path": "/nowhere"}
USAGE = {"include_usage": True}


@dataclass(frozen=True)
class Case:
    """One request."""

    name: str
    path: str
    body: Any = None
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)

    def data(self) -> bytes | None:
        if self.body is None:
            return None
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


def completion(name: str, **fields: Any) -> Case:
    body = {"model": MODEL, "prompt": "tell me", "max_tokens": 8, "ignore_eos": True, **fields}
    return Case(name, "/v1/completions", {k: v for k, v in body.items() if v is not ...})


def chat(name: str, **fields: Any) -> Case:
    body = {"model": MODEL, "messages": CHAT, "max_tokens": 8, "ignore_eos": True, **fields}
    return Case(name, "/v1/chat/completions", {k: v for k, v in body.items() if v is not ...})


def response(name: str, **fields: Any) -> Case:
    body = {"model": MODEL, "input": "tell me", "max_output_tokens": 8, "ignore_eos": True}
    return Case(
        name, "/v1/responses", {k: v for k, v in {**body, **fields}.items() if v is not ...}
    )


def message(name: str, path: str = "/v1/messages", **fields: Any) -> Case:
    body = {"model": MODEL, "messages": CHAT, "max_tokens": 8}
    return Case(name, path, {k: v for k, v in {**body, **fields}.items() if v is not ...})


CASES = [
    completion("a completion"),
    completion("a completion of tokens", prompt=[5, 6, 7]),
    completion("a completion without a model", model=...),
    completion("an adapter", model="sql"),
    completion("a model that is not there", model="gpt-9"),
    completion("no prompt", prompt=...),
    completion("an empty prompt", prompt=""),
    completion("a prompt that is too long", prompt="word " * 3000),
    completion("more tokens than the context", max_tokens=5000),
    completion("no tokens", max_tokens=0),
    completion("a negative number of tokens", max_tokens=-1),
    completion("a text for a number", max_tokens="many"),
    completion("a temperature below zero", temperature=-1),
    completion("a share above one", top_p=2),
    completion("two answers", n=2),
    completion("no answer", n=0),
    completion("more answers than allowed", n=16385),
    completion("two answers that are the same", n=2, temperature=0),
    completion("two prompts", prompt=["one", "two"]),
    completion("a stop text", stop=["zzz"]),
    completion("a stop that is a number", stop=5),
    completion("no prompts", prompt=[]),
    completion("two prompts with two answers each", prompt=["one", "two"], n=2),
    completion("two streamed prompts", prompt=["one", "two"], stream=True, stream_options=USAGE),
    completion("the prompt repeated", echo=True),
    completion("the prompt alone", echo=True, max_tokens=0, logprobs=1),
    completion("the prompt repeated in a stream", echo=True, stream=True, logprobs=1),
    completion("probabilities", logprobs=2),
    completion("probabilities of the tokens alone", logprobs=0),
    completion("probabilities in a stream", logprobs=1, stream=True),
    completion("probabilities of the prompt", prompt_logprobs=1),
    completion("probabilities of the prompt in a stream", prompt_logprobs=1, stream=True),
    completion("no probabilities of the prompt in a stream", prompt_logprobs=0, stream=True),
    completion("more probabilities than allowed", logprobs=30),
    completion("a negative number of probabilities", logprobs=-2),
    completion("a suffix", suffix="x"),
    completion("a stream", stream=True),
    completion("a stream with usage", stream=True, stream_options=USAGE),
    completion("usage without a stream", stream_options=USAGE),
    completion("a stream of an unknown model", model="gpt-9", stream=True),
    completion("an unknown field", something=1),
    Case("a body that is no JSON", "/v1/completions", '{"model": '),
    Case("a body that is a list", "/v1/completions", [1]),
    Case("an empty body", "/v1/completions", ""),
    Case("a GET of completions", "/v1/completions", method="GET"),
    chat("a chat"),
    chat("a chat without messages", messages=...),
    chat("a chat with no message", messages=[]),
    chat("a message without a role", messages=[{"content": "x"}]),
    chat("content in parts", messages=PARTS),
    chat("a chat of an adapter", model="sql"),
    chat("a chat of an unknown model", model="gpt-9"),
    chat("a chat with the newer limit", max_tokens=..., max_completion_tokens=4),
    chat("a streamed chat", stream=True),
    chat("a streamed chat with usage", stream=True, stream_options=USAGE),
    chat("a chat that is too long", messages=[{"role": "user", "content": "word " * 3000}]),
    chat("two chat answers", n=2),
    chat("probabilities of a chat", logprobs=True, top_logprobs=2),
    chat("probabilities of a streamed chat", **PRINTED, top_logprobs=1, stream=True),
    chat("alternatives without probabilities", top_logprobs=2),
    chat("probabilities of a chat's prompt", prompt_logprobs=1),
    chat("a streamed chat without its prompt's", prompt_logprobs=0, stream=True),
    chat("a chat that repeats its prompt", echo=True),
    chat("a chat that must be JSON", response_format=SCHEMA, max_tokens=100, ignore_eos=False),
    chat("a chat that must call", max_tokens=100, ignore_eos=False, tools=[TOOL], tool_choice=CALL),
    response("a response"),
    response("a response to messages", input=CHAT, instructions="Be short."),
    response("a response to parts", input=INPUT_PARTS),
    response("a response to nothing", input=[]),
    response("a response without input", input=...),
    response("a response of an unknown model", model="gpt-9"),
    response("a streamed response", stream=True),
    response("a response with probabilities", include=LOGPROBS, top_logprobs=1),
    response("a response that must be JSON", **AS_JSON),
    response("a response that must call", **FORCED, max_output_tokens=100),
    response("a streamed call", **FORCED, max_output_tokens=100, stream=True),
    response("a tool without a name", tools=[{"type": "function"}], tool_choice="required"),
    response("a required call without tools", tool_choice="required"),
    response("a response that goes on", previous_response_id="resp_1"),
    response("a response in the background", background=True),
    response("more than the context in a response", max_output_tokens=5000),
    response("a response of a reasoning model", reasoning={"effort": "low"}, user="ada"),
    Case("a response that is not stored", "/v1/responses/resp_1", method="GET"),
    Case("no response to cancel", "/v1/responses/resp_1/cancel"),
    message("a message", system="Be short."),
    message("a streamed message", stream=True),
    message("a message that must call", max_tokens=100, tools=[TYPED], tool_choice={"type": "any"}),
    message("a message without a limit", max_tokens=...),
    message("a message of nobody", messages=[{"role": "tool", "content": "x"}]),
    message("a message of an unknown model", model="gpt-9"),
    message("more than the context in a message", max_tokens=5000),
    message("the tokens of a message", "/v1/messages/count_tokens", max_tokens=...),
    message("the tokens for an unknown model", "/v1/messages/count_tokens", model="gpt-9"),
    Case("tokens with their text", "/tokenize", {"prompt": "text", "return_token_strs": True}),
    Case("tokens that are text", "/detokenize", {"model": MODEL, "tokens": "x"}),
    Case("text of tokens of an unknown model", "/detokenize", {"model": "gpt-9", "tokens": [40]}),
    Case("an embedding", "/v1/embeddings", {"model": MODEL, "input": "text"}),
    Case("tokens of a text", "/tokenize", {"model": MODEL, "prompt": "text"}),
    Case("tokens of a chat", "/tokenize", {"model": MODEL, "messages": CHAT}),
    Case("tokens for an unknown model", "/tokenize", {"model": "gpt-9", "prompt": "text"}),
    Case("text of tokens", "/detokenize", {"model": MODEL, "tokens": [40, 41]}),
    Case("the models", "/v1/models", method="GET"),
    Case("health", "/health", method="GET"),
    Case("a ping", "/ping", method="GET"),
    Case("the load", "/load", method="GET"),
    Case("the version", "/version", method="GET"),
    Case("a path that is not there", "/nothing", method="GET"),
    Case("an adapter without a path", "/v1/load_lora_adapter", {"lora_name": "x"}),
    Case("an adapter without a name", "/v1/load_lora_adapter", {"lora_path": "/nowhere"}),
    Case("an empty adapter name", "/v1/load_lora_adapter", {"lora_name": "", "lora_path": "/x"}),
    Case("no such adapter", "/v1/load_lora_adapter", {"lora_name": "x", **NOWHERE}),
    Case("an adapter like the model", "/v1/load_lora_adapter", {"lora_name": MODEL, **NOWHERE}),
    Case("an adapter that is loaded", "/v1/load_lora_adapter", {"lora_name": "sql", **NOWHERE}),
    Case("unloading what is not loaded", "/v1/unload_lora_adapter", {"lora_name": "x"}),
    Case("unloading nothing", "/v1/unload_lora_adapter", {}),
]


POOLING = [
    Case("an embedding", "/v1/embeddings", {"model": MODEL, "input": "text"}),
    Case("two embeddings", "/v1/embeddings", {"model": MODEL, "input": ["text", "other"]}),
    Case("encoded", "/v1/embeddings", {"input": "text", "encoding_format": "base64"}),
    Case("a short embedding", "/v1/embeddings", {"input": "text", "dimensions": 8}),
    Case("a score", "/score", {"model": MODEL, "text_1": "abc", "text_2": "abd"}),
    Case("a score by its older path", "/v1/score", {"text_1": "abc", "text_2": "abd"}),
    Case("scores of several", "/score", {"queries": "a", "documents": ["b", "c"]}),
    Case("scores of pairs", "/score", {"text_1": ["a", "b"], "text_2": ["c", "d"]}),
    Case("scores of two and three", "/score", {"text_1": ["a", "b"], "text_2": ["c", "d", "e"]}),
    Case("a score of nothing", "/score", {"text_1": "a", "text_2": []}),
    Case("a ranking", "/rerank", {"query": "a", "documents": ["b", "c"]}),
    Case(
        "the best of a ranking", "/v1/rerank", {"query": "a", "documents": ["b", "c"], "top_n": 1}
    ),
    Case("a ranking of one", "/v2/rerank", {"query": "a", "documents": "b"}),
    Case(
        "a negative number of the best", "/rerank", {"query": "a", "documents": ["b"], "top_n": -1}
    ),
    Case("a ranking without a query", "/rerank", {"documents": ["b"]}),
    Case("a ranking of nothing", "/rerank", {"query": "a", "documents": []}),
    Case("an unknown model", "/rerank", {"model": "gpt-9", "query": "a", "documents": ["b"]}),
    Case("text from a pooling model", "/v1/completions", {"prompt": "x"}),
    Case("a chat with a pooling model", "/v1/chat/completions", {"messages": CHAT}),
    Case("a response of a pooling model", "/v1/responses", {"input": "x"}),
    Case("tokens of a text", "/tokenize", {"prompt": "text"}),
]
"""For a server with a pooling model."""

BY_TOKEN = ("top_logprobs", "prompt_logprobs")
"""Lists of mappings whose keys are tokens."""


def shape(value: Any, name: str = "") -> Any:
    """Return what a body is made of: keys with types; lists by their first item; None as null."""
    if name == "bytes":
        return type(value).__name__  # part of a character has none
    if name in BY_TOKEN and isinstance(value, list):
        # the first token of a prompt has none
        last = value[-1] if value else {}
        return [shape(next(iter(last.values()))) if "token" not in last else shape(last)]
    if isinstance(value, dict):
        return {key: shape(value[key], key) for key in sorted(value)}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def read(text: str, content_type: str) -> Any:
    """Return the shape of an answer: a JSON body, the distinct events of a stream, or its text."""
    if content_type.startswith("text/event-stream"):
        found: list[Any] = []
        for line in text.splitlines():
            if line.startswith("data: "):
                event = line[6:] if line.endswith("[DONE]") else shape(json.loads(line[6:]))
                if event not in found:
                    found.append(event)
        return found
    try:
        return shape(json.loads(text))
    except ValueError:
        return text
