"""Asks a model through the gateway, as any OpenAI client would: a streamed answer, or pictures."""

import base64
import http.client
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from scripts.console import CommandError, console
from scripts.options import stack_of
from scripts.output_files import check_folder
from twin.host.paths import TwinPaths

_TIMEOUT_SECONDS = 60
_MOST = 300  # characters of a refusal: some proxies answer with a page
_SIZE = re.compile("auto|[1-9][0-9]*x[1-9][0-9]*")


@dataclass(frozen=True)
class Answer:
    """One streamed answer."""

    text: str
    served_by: str
    """Pod that answered, where the gateway says so; otherwise empty."""
    first_token_seconds: float
    total_seconds: float


def _connection(endpoint: str, timeout: float = _TIMEOUT_SECONDS) -> http.client.HTTPConnection:
    url = urlsplit(endpoint)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    return kind(url.hostname or "", url.port, timeout=timeout)


def _unanswered(model: str, error: Exception, timeout: float) -> CommandError:
    """Return why a model did not answer; a silence is told with its length."""
    if isinstance(error, TimeoutError):
        return CommandError(f"{model}: nothing came for {timeout:g} s")
    return CommandError(f"{model}: {error}")


def reason(body: bytes) -> str:
    """Return what an answer that refuses says, in one line: its error's message, or its text."""
    text = body.decode(errors="replace")
    try:
        found: Any = json.loads(body)
        error: Any = found.get("error", found)
        text = str(error.get("message") or error.get("detail") or text)
    except (AttributeError, ValueError):
        pass  # no object with an error in it
    return " ".join(text.split())[:_MOST]


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
        raise CommandError(f"{endpoint}/v1/models: HTTP {answer.status} {reason(body)}")
    return [entry["id"] for entry in json.loads(body)["data"]]


@dataclass(frozen=True)
class Picture:
    """One picture of an answer."""

    file: bytes
    """PNG."""
    seed: int


def draw(
    endpoint: str, model: str, prompt: str, *, timeout: float = _TIMEOUT_SECONDS, **fields: Any
) -> list[Picture]:
    """Have a model draw, and return the pictures.

    Args:
        endpoint: of the gateway.
        model: or an adapter of it.
        prompt: what to draw.
        timeout: longest silence, in seconds; pictures come all at once.
        fields: of the images API; None is left out.

    Raises:
        CommandError: the gateway or the model refuses (holds the status and the body), or is
            silent for too long.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    body = json.dumps({"model": model, "prompt": prompt, **given})
    connection = _connection(endpoint, timeout)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/images/generations", body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise _unanswered(model, error, timeout) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise CommandError(f"{model}: HTTP {answer.status} {reason(content)}")
    return [
        Picture(base64.b64decode(each["b64_json"]), each["seed"])
        for each in json.loads(content)["data"]
    ]


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield json.loads(line[6:])


def stream_chat(
    endpoint: str,
    model: str,
    prompt: str,
    max_tokens: int = 24,
    timeout: float = _TIMEOUT_SECONDS,
) -> Answer:
    """Ask a model and return its answer, read as a stream.

    Args:
        endpoint: of the gateway.
        model: or an adapter of it.
        prompt: what to say.
        max_tokens: of the answer.
        timeout: longest silence, in seconds.

    Raises:
        CommandError: the gateway or the model refuses (holds the status and the body), or is
            silent for too long.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    begun = time.monotonic()
    connection = _connection(endpoint, timeout)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise CommandError(f"{model}: HTTP {answer.status} {reason(answer.read())}")
        words: list[str] = []
        first = 0.0
        for event in _events(answer):
            for choice in event.get("choices", []):
                if piece := choice.get("delta", {}).get("content"):
                    first = first or time.monotonic() - begun
                    words.append(piece)
        served_by = answer.headers.get("x-gke-inference-pod", "")
    except (OSError, http.client.HTTPException) as error:
        raise _unanswered(model, error, timeout) from error
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


def ask(
    prompt: Annotated[str, typer.Argument(help="What to say, or to draw.")],
    model: Annotated[
        str, typer.Option(help="Model or adapter; by default the stack's first.")
    ] = "",
    image: Annotated[bool, typer.Option("--image", help="Have pictures drawn.")] = False,
    stack: Annotated[str, typer.Option(help="Environment that is up on the twin.")] = "local",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Pictures to draw.")] = 1,
    size: Annotated[str, typer.Option(help="Of a picture, such as 1024x1024.")] = "auto",
    seed: Annotated[int | None, typer.Option(help="Of the first picture.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures.")] = Path(),
    timeout: Annotated[
        float, typer.Option(min=1, max=86_400, help="Longest silence, in seconds.")
    ] = _TIMEOUT_SECONDS,
) -> None:
    """Ask a model of a stack through the gateway; pictures are saved as PNG files."""
    if image:
        check_folder("--out", out)
        if not _SIZE.fullmatch(size):
            raise CommandError(f"--size: must be such as 1024x1024 or auto, got {size!r}")
    endpoint = endpoint_of(stack, TwinPaths.default().root.parent)
    task = "image" if image else "generate"
    model = model or _first(stack, task)
    if not image:
        answer = stream_chat(endpoint, model, prompt, max_tokens=256, timeout=timeout)
        console.print(answer.text.strip(), markup=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    pictures = draw(endpoint, model, prompt, timeout=timeout, n=count, size=size, seed=seed)
    for picture in pictures:
        path = out / f"{model}-{picture.seed}.png"
        path.write_bytes(picture.file)
        console.print(str(path), markup=False, soft_wrap=True)


def endpoint_of(stack: str, folder: Path) -> str:
    """Return the address of a stack's gateway, which somebody listens at.

    Args:
        stack: name of the stack.
        folder: where `up` writes, a folder for each stack.

    Raises:
        CommandError: the stack is not up: `up` wrote no address, or nobody listens there.
    """
    file = folder / stack / "endpoint"
    if file.exists():
        endpoint = file.read_text().strip()
        connection = _connection(endpoint)
        try:
            connection.connect()
        except OSError:
            pass
        else:
            return endpoint
        finally:
            connection.close()
    raise CommandError(f"--stack: must be up on the twin, got {stack!r}: make up STACK={stack}")


def _first(stack: str, task: str) -> str:
    for name, model in stack_of(stack).models.items():
        if model.task.value == task:
            return name
    raise CommandError(f"model: must be named, stack {stack!r} has none of task {task}")
