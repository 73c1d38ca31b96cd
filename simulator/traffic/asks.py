"""What is sent and when: a trace is data, made once and replayed against anything."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache


@lru_cache(maxsize=4096)
def _escaped(text: str) -> bytes:
    """Return a text as the inside of a JSON string; prefixes are long and come often."""
    return json.dumps(text)[1:-1].encode()


@dataclass(frozen=True)
class Prompt:
    """The text of a prompt: a part that a group of requests shares, and a part of its own."""

    prefix: str
    tail: str = ""

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.prefix + self.tail

    def encoded(self) -> bytes:
        """Return the prompt as the inside of a JSON string."""
        return _escaped(self.prefix) + json.dumps(self.tail)[1:-1].encode()


@dataclass(frozen=True)
class Ask:
    """One request of a trace."""

    at: float
    """Seconds after the start of the trace."""
    model: str
    """Model or adapter that is asked for."""
    prompt: Prompt
    output_tokens: int
    """Tokens of the answer; it ends there and not before (`ignore_eos`)."""
    group: str = ""
    """What the request shares a prefix with; for reports only."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with the request, such as the objective."""
    stream: bool = True

    def body(self) -> bytes:
        """Return the body of `POST /v1/completions`."""
        rest = {
            "model": self.model,
            "max_tokens": self.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
        }
        if self.stream:
            rest |= {"stream": True, "stream_options": {"include_usage": True}}
        head = json.dumps(rest, separators=(",", ":")).encode()
        return head[:-1] + b',"prompt":"' + self.prompt.encoded() + b'"}'


@dataclass(frozen=True)
class Trace:
    """Requests in the order they are sent."""

    name: str
    asks: tuple[Ask, ...]

    @classmethod
    def merge(cls, name: str, *parts: Iterable[Ask]) -> "Trace":
        """Return the requests of several streams as one trace, by time."""
        return cls(name, tuple(sorted((a for part in parts for a in part), key=lambda a: a.at)))

    @cached_property
    def seconds(self) -> float:
        """When the last request is sent."""
        return self.asks[-1].at if self.asks else 0.0

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that two equal traces share: proof that a run was paired."""
        found = hashlib.sha256()
        for ask in self.asks:
            found.update(f"{ask.at:.6f} {ask.output_tokens} ".encode())
            found.update(ask.body())
        return found.hexdigest()[:12]

    def shifted(self, seconds: float) -> "Trace":
        """Return the same trace, later."""
        moved = (
            Ask(a.at + seconds, a.model, a.prompt, a.output_tokens, a.group, a.headers, a.stream)
            for a in self.asks
        )
        return Trace(self.name, tuple(moved))
