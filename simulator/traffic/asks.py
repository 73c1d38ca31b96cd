"""Requests and their times: a trace is data that is created once and can be replayed anywhere."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache


@lru_cache(maxsize=4096)
def _escaped(text: str) -> bytes:
    """Return a text as the content of a JSON string, cached for long and frequent prefixes."""
    return json.dumps(text)[1:-1].encode()


@dataclass(frozen=True)
class Prompt:
    """The text of a prompt: a part that a group of requests shares, and a unique part."""

    prefix: str
    tail: str = ""

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.prefix + self.tail

    def encoded(self) -> bytes:
        """Return the prompt as the content of a JSON string."""
        return _escaped(self.prefix) + json.dumps(self.tail)[1:-1].encode()


@dataclass(frozen=True)
class TraceEntry:
    """One request of a trace."""

    at: float
    """Seconds after the start of the trace."""
    model: str
    """Requested model or adapter."""
    prompt: Prompt
    output_tokens: int
    """Exact number of response tokens (`ignore_eos`)."""
    group: str = ""
    """Group of requests with the same prefix, for reports only."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of the request, such as the objective."""
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
    """Requests in the order in which they are sent."""

    name: str
    asks: tuple[TraceEntry, ...]

    @classmethod
    def merge(cls, name: str, *parts: Iterable[TraceEntry]) -> "Trace":
        """Return the requests of several streams as one trace, by time."""
        return cls(name, tuple(sorted((a for part in parts for a in part), key=lambda a: a.at)))

    @cached_property
    def seconds(self) -> float:
        """Time of the last request."""
        return self.asks[-1].at if self.asks else 0.0

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits of a hash of the trace, which show that runs are paired."""
        found = hashlib.sha256()
        for ask in self.asks:
            found.update(f"{ask.at:.6f} {ask.output_tokens} ".encode())
            found.update(ask.body())
        return found.hexdigest()[:12]

    def shifted(self, seconds: float) -> "Trace":
        """Return the same trace with a later start."""
        moved = (
            TraceEntry(
                a.at + seconds, a.model, a.prompt, a.output_tokens, a.group, a.headers, a.stream
            )
            for a in self.asks
        )
        return Trace(self.name, tuple(moved))
