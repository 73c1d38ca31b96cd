"""Requests that the real and the simulated server must answer alike: status, keys and types."""

import json
from dataclasses import dataclass, field
from typing import Any

MODEL = "llama-3.1-8b"
LONGEST = 1024
CHAT = [{"role": "user", "content": "How does a batch work?"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
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
    completion("two prompts", prompt=["one", "two"]),
    completion("a stop text", stop=["zzz"]),
    completion("a stop that is a number", stop=5),
    completion("the prompt repeated", echo=True),
    completion("probabilities", logprobs=2),
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


def shape(value: Any) -> Any:
    """Return what a body is made of: keys with types; lists by their first item; None as null."""
    if isinstance(value, dict):
        return {key: shape(value[key]) for key in sorted(value)}
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
