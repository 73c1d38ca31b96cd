"""Asks a model through the gateway, as any OpenAI client would, and streams the answer."""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from scripts.console import CommandError

_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """One streamed answer."""

    text: str
    served_by: str
    """Pod that answered, where the gateway says so; otherwise empty."""
    first_token_seconds: float
    total_seconds: float


def _connection(endpoint: str) -> http.client.HTTPConnection:
    url = urlsplit(endpoint)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    return kind(url.hostname or "", url.port, timeout=_TIMEOUT_SECONDS)


def models(endpoint: str) -> list[str]:
    """Return the ids that `/v1/models` lists.

    Raises:
        CommandError: the gateway does not answer with success.
    """
    connection = _connection(endpoint)
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        body = answer.read()
    except OSError as error:
        raise CommandError(f"{endpoint}/v1/models: {error}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise CommandError(f"{endpoint}/v1/models: HTTP {answer.status} {body[:200]!r}")
    return [entry["id"] for entry in json.loads(body)["data"]]


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield json.loads(line[6:])


def stream_chat(endpoint: str, model: str, prompt: str, max_tokens: int = 24) -> Answer:
    """Ask a model and return its answer, read as a stream.

    Raises:
        CommandError: the gateway or the model refuses; holds the status and the body.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    begun = time.monotonic()
    connection = _connection(endpoint)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise CommandError(f"{model}: HTTP {answer.status} {answer.read()[:300].decode()}")
        words: list[str] = []
        first = 0.0
        for event in _events(answer):
            for choice in event.get("choices", []):
                if piece := choice.get("delta", {}).get("content"):
                    first = first or time.monotonic() - begun
                    words.append(piece)
        served_by = answer.headers.get("x-gke-inference-pod", "")
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(f"{model}: {error}") from error
    finally:
        connection.close()
    if not words:
        raise CommandError(f"{model}: the stream ended without a token")
    return Answer("".join(words), served_by, first, time.monotonic() - begun)


def wait_for_answer(endpoint: str, model: str, prompt: str, timeout: float) -> Answer:
    """Ask until the model answers.

    Raises:
        CommandError: it did not in `timeout` seconds; holds the last refusal.
    """
    until = time.monotonic() + timeout
    while True:
        try:
            return stream_chat(endpoint, model, prompt)
        except CommandError as error:
            if time.monotonic() > until:
                raise CommandError(f"no answer in {timeout:.0f} s: {error}") from error
            time.sleep(0.2)
