"""Calling a model: what is sent, what is read, and the one line when no answer comes."""

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scripts.operate import ask as command
from scripts.shared.model_client import (
    generate_images,
    generate_video,
    models,
    refusal,
    stream_chat,
)
from scripts.terminal.console import CommandError
from workloads.diffusion import forms

Call = Callable[..., object]


class Gateway(ThreadingHTTPServer):
    """Answers each request with what a test set, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body = 200, b""
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Gateway  # pyrefly: ignore[bad-override-mutable-attribute] - narrower

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_form = headers.get("content-type", "").startswith("multipart/")
        body = {"form": sent} if is_form else json.loads(sent or b"{}")
        self.server.requests.append((self.path, body, headers))
        self.send_response(self.server.status)
        is_stream = self.server.body.startswith(b"data:")
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("x-gke-inference-pod", "llama-0")
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def chunk(**delta: str) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    return b"data: " + json.dumps({"choices": choices}).encode() + b"\n\n"


def test_an_answer_is_read_as_a_stream_and_names_the_pod(gateway: Gateway) -> None:
    gateway.body = b"".join(
        [chunk(role="assistant"), chunk(content="Hello"), chunk(content=" you"),
         b'data: {"choices": []}\n\n', b"data: [DONE]\n\n"]
    )  # fmt: skip
    answer = stream_chat(gateway.url, "llama", "Hi", max_tokens=7)
    assert (answer.text, answer.served_by) == ("Hello you", "llama-0")
    assert 0 < answer.first_token_seconds <= answer.total_seconds
    path, body, _ = gateway.requests[0]
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "llama",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 7,
        "stream": True,
    }


def test_images_are_decoded_and_only_given_fields_are_sent(gateway: Gateway) -> None:
    image = {"b64_json": base64.b64encode(b"png").decode(), "seed": 7}
    gateway.body = json.dumps({"created": 1, "data": [image]}).encode()
    found = generate_images(gateway.url, "flux", "a cat", count=1, seed=7)
    assert [(one.file, one.seed) for one in found] == [(b"png", 7)]
    path, body, _ = gateway.requests[0]
    assert path == "/v1/images/generations"
    assert body == {"model": "flux", "prompt": "a cat", "n": 1, "seed": 7}


def test_a_video_is_the_body_of_its_response_and_only_given_fields_are_sent(
    gateway: Gateway,
) -> None:
    gateway.body = b"\x00\x00\x00\x18ftypisom"
    assert generate_video(gateway.url, "wan", "a cat", seed=7) == gateway.body
    path, body, _ = gateway.requests[0]
    assert path == "/v1/videos/sync"
    assert body == {"model": "wan", "prompt": "a cat", "seed": 7}


def test_models_are_listed_by_id(gateway: Gateway) -> None:
    gateway.body = b'{"object": "list", "data": [{"id": "a"}, {"id": "b"}]}'
    assert models(gateway.url) == ["a", "b"]


def test_the_users_own_key_and_proxy_are_not_used(gateway: Gateway, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    gateway.body = b'{"data": []}'
    assert models(gateway.url) == []
    assert "secret" not in json.dumps(gateway.requests[0][2])


@pytest.mark.parametrize("call", [generate_images, generate_video, stream_chat])
def test_a_refusal_is_its_status_and_message_in_one_line(gateway: Gateway, call: Call) -> None:
    gateway.status, gateway.body = 404, b'{"error": {"message": "no such\\n model"}}'
    with pytest.raises(CommandError, match=r"^llama: HTTP 404 no such model$"):
        call(gateway.url, "llama", "Hello")
    assert len(gateway.requests) == 1


def test_an_error_in_the_middle_of_a_stream_is_one_line(gateway: Gateway) -> None:
    gateway.body = chunk(content="Hel") + b'data: {"error": {"message": "engine died"}}\n\n'
    with pytest.raises(CommandError, match=r"^llama: engine died$"):
        stream_chat(gateway.url, "llama", "Hello")


def test_a_stream_without_a_token_is_an_error(gateway: Gateway) -> None:
    gateway.body = b"data: [DONE]\n\n"
    with pytest.raises(CommandError, match=r"^llama: the stream ended without a token$"):
        stream_chat(gateway.url, "llama", "Hello")


@pytest.mark.parametrize("call", [generate_images, generate_video, stream_chat])
def test_a_silent_model_is_named_with_the_seconds_waited(silent: str, call: Call) -> None:
    with pytest.raises(CommandError, match=r"^llama: no data arrived for 0\.2 s$"):
        call(silent, "llama", "Hello", timeout=0.2)


@pytest.mark.parametrize("call", [generate_images, generate_video, stream_chat])
def test_a_gateway_that_is_gone_is_one_line_with_the_systems_reason(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(CommandError, match=r"^llama: .*refused$"):
        call(address, "llama", "Hello", timeout=0.2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"error": {"message": "The model `x` does not exist.", "code": 404}}',
            "The model `x` does not exist.",
        ),
        (b'{"object": "error", "message": "no such\\n  model"}', "no such model"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b"no healthy upstream", "no healthy upstream"),
        ("é".encode() * 1000, "é" * 300),
        (b"[]", "[]"),
        (b'{"error": {}}', '{"error": {}}'),
        (b"", ""),
    ],
)
def test_a_refusal_in_any_form_is_its_message(body: bytes, message: str) -> None:
    assert refusal(body) == message


def test_generated_images_are_saved_by_model_and_seed(gateway, monkeypatch, tmp_path) -> None:
    image = {"b64_json": base64.b64encode(b"png").decode(), "seed": 7}
    gateway.body = json.dumps({"created": 1, "data": [image]}).encode()
    monkeypatch.setattr(command, "endpoint_of", lambda *_: gateway.url)
    monkeypatch.chdir(tmp_path)
    command.ask("a cat", model="flux", image=True, out=Path("made"))
    assert (tmp_path / "made" / "flux-7.png").read_bytes() == b"png"


def test_an_image_and_its_mask_are_sent_as_a_form(gateway, monkeypatch, tmp_path) -> None:
    image = {"b64_json": base64.b64encode(b"png").decode(), "seed": 7}
    gateway.body = json.dumps({"created": 1, "data": [image]}).encode()
    monkeypatch.setattr(command, "endpoint_of", lambda *_: gateway.url)
    for name in ("image", "mask"):
        (tmp_path / name).write_bytes(f"the {name}".encode())
    files = {"input_file": tmp_path / "image", "mask": tmp_path / "mask"}
    command.ask("a cat", model="flux", image=True, out=tmp_path, **files)
    path, body, headers = gateway.requests[0]
    assert path == "/v1/images/edits"
    parts = forms.read(body["form"], forms.boundary_of([headers["content-type"]]))
    found = {part.name: (part.content, part.is_file) for part in parts}
    assert found == {
        "image": (b"the image", True),
        "mask": (b"the mask", True),
        "model": (b"flux", False),
        "n": (b"1", False),
        "prompt": (b"a cat", False),
        "size": (b"auto", False),
    }
    assert (tmp_path / "flux-7.png").read_bytes() == b"png"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_file": Path("a.png")}, "--input: must be omitted without --image"),
        ({"image": True, "mask": Path("a.png")}, "--mask: must be omitted without --input"),
        ({"image": True, "input_file": Path("/no.png")}, "--input: /no.png: No such file"),
    ],
)
def test_a_file_without_its_option_or_its_content_is_rejected(
    gateway, monkeypatch, tmp_path, given: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(command, "endpoint_of", lambda *_: gateway.url)
    with pytest.raises(CommandError, match=f"^{message}"):
        command.ask("a cat", model="flux", out=tmp_path, **given)


def test_a_generated_video_is_saved_by_model_and_seed(gateway, monkeypatch, tmp_path) -> None:
    gateway.body = b"mp4"
    monkeypatch.setattr(command, "endpoint_of", lambda *_: gateway.url)
    monkeypatch.chdir(tmp_path)
    command.ask("a cat", model="wan", video=True, seed=7, size="480x832", out=Path("made"))
    assert (tmp_path / "made" / "wan-7.mp4").read_bytes() == b"mp4"
    assert gateway.requests[0][1]["size"] == "480x832"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": True}, "--video: must be omitted with --image"),
        ({"count": 2}, "--count: must be 1 with --video, got 2"),
        ({"size": "wide"}, "--size: must be auto or a size such as 1024x1024, got 'wide'"),
    ],
)
def test_options_that_no_video_has_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError, match=f"^{message}$"):
        command.ask("a cat", video=True, **given)
