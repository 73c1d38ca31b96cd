"""Calls the models of a stack through its gateway, with the openai client."""

import base64
import importlib
import json
import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from scripts.shared.hosts import host_of
from scripts.terminal.console import CommandError

if TYPE_CHECKING:  # the library takes a second to load, and `up` starts without it
    from openai import APIError, OpenAI

DEFAULT_TIMEOUT_SECONDS = 60.0
VIDEO_TIMEOUT_SECONDS = 3600.0
"""Longest `timeout_seconds` of a model: the gateway ends a longer request before."""
_LONGEST_REFUSAL = 300  # characters: some proxies answer with a page
_POD_HEADER = "x-gke-inference-pod"
VIDEO_PATH = "/videos/sync"
"""Path of videos that are returned in the response, under `/v1`."""
KEY_VARIABLE = "GKE_INFERENCE_KEY"
"""Environment variable with the key of a client, for a stack with `clients`."""
APIGEE_HEADER = "x-api-key"
"""Header in which Apigee expects a key
(docs.cloud.google.com/apigee/docs/api-platform/apigee-kubernetes/
apigee-apim-operator-security-quota). A gate also accepts it."""
_NO_KEY = "none"  # a key of another service, such as OPENAI_API_KEY, stays with the user
_keys: dict[str, str] = {}
"""Keys of a command's own by the model or adapter that they are for; empty without any."""


@dataclass(frozen=True)
class Answer:
    """One streamed answer."""

    text: str
    served_by: str
    """Pod that answered; empty if the gateway does not report it."""
    first_token_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class GeneratedImage:
    """One image of an answer."""

    file: bytes
    """PNG."""
    seed: int
    """Seed that the model reports, otherwise counted from the requested seed."""


@contextmanager
def using_keys(keys: Mapping[str, str]) -> Generator[None]:
    """Send these keys, in all threads, unless the user has set one.

    Args:
        keys: Keys by the model or adapter that they are for.
    """
    _keys.update(keys)
    try:
        yield
    finally:
        for name in keys:
            del _keys[name]


def key_of(name: str) -> str | None:
    """Return the key to ask a model or adapter with; None without one.

    Args:
        name: Model, adapter, or anything else for what any key may ask.
    """
    own = os.environ.get(KEY_VARIABLE)
    return own or _keys.get(name) or next(iter(_keys.values()), None)


def headers_with(key: str | None) -> dict[str, str]:
    """Return the headers with a key: the one of OpenAI, which a gate reads, and that of Apigee."""
    return {} if key is None else {"authorization": f"Bearer {key}", APIGEE_HEADER: key}


def preload() -> None:
    """Load the library in the background while the command waits for another program."""
    name = "openai.resources.chat.completions"
    threading.Thread(target=importlib.import_module, args=(name,), daemon=True).start()


def models(endpoint: str, subject: str = "", address: str | None = None) -> list[str]:
    """Return the IDs that `/v1/models` lists for any of the keys: a team sees what it may ask.

    Args:
        endpoint: URL of the gateway.
        subject: Subject of errors; by default the URL of the list.
        address: Address to connect to instead of the URL's host; the request keeps the host.

    Raises:
        CommandError: The gateway does not answer, or refuses.
    """
    own = os.environ.get(KEY_VARIABLE)
    found: dict[str, None] = {}
    for key in [own] if own or not _keys else dict.fromkeys(_keys.values()):
        subject = subject or f"{endpoint}/v1/models"
        with open_client(endpoint, subject, address=address, key=key) as client:
            found |= dict.fromkeys(model.id for model in client.models.list().data)
    return list(found)


def stream_chat(
    endpoint: str,
    model: str,
    prompt: str,
    max_tokens: int = 24,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
) -> Answer:
    """Return the streamed answer of a model to a prompt.

    Args:
        endpoint: URL of the gateway.
        model: Model or adapter.
        prompt: Message of the user.
        max_tokens: Maximum length of the answer, in tokens.
        timeout: Maximum wait for the next piece of the answer, in seconds.

    Raises:
        CommandError: The gateway or the model refuses, or no data arrives within the timeout.
    """
    pieces: list[str] = []
    first = 0.0
    with open_client(endpoint, model, timeout) as client:
        begun = time.monotonic()
        response = client.chat.completions.with_raw_response.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=max_tokens,
            stream=True,
        )
        for chunk in response.parse():
            for choice in chunk.choices:
                if choice.delta.content:
                    first = first or time.monotonic() - begun
                    pieces.append(choice.delta.content)
        total = time.monotonic() - begun
    if not pieces:
        raise CommandError(f"{model}: the stream ended without a token")
    return Answer("".join(pieces), response.headers.get(_POD_HEADER, ""), first, total)


def wait_for_answer(endpoint: str, model: str, prompt: str, timeout: float) -> Answer:
    """Retry until the model answers.

    Raises:
        CommandError: The model did not answer within `timeout` seconds; holds the last refusal.
    """
    until = time.monotonic() + timeout
    while True:
        try:
            return stream_chat(endpoint, model, prompt)
        except CommandError as error:
            if time.monotonic() > until:
                raise CommandError(f"no answer within {timeout:.0f} s: {error}") from error
            time.sleep(0.2)


def generate_images(
    endpoint: str,
    model: str,
    prompt: str,
    *,
    count: int | None = None,
    image: bytes | None = None,
    mask: bytes | None = None,
    size: str | None = None,
    seed: int | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
) -> list[GeneratedImage]:
    """Return the images that a model generates for a prompt, or makes of an image.

    Args:
        endpoint: URL of the gateway.
        model: Model or adapter.
        prompt: Description of the image.
        count: Number of images; None: the model's default.
        image: File of an image to change; None: images are generated from the prompt alone.
        mask: PNG file whose transparent pixels are changed; None: the whole image.
        size: Size such as 1024x1024; None: the model's default.
        seed: Seed of the first image; None: the model chooses.
        timeout: Maximum wait for the images, which arrive together, in seconds.

    Raises:
        CommandError: The gateway or the model refuses, or no data arrives within the timeout.
    """
    given = {"n": count, "size": size, "seed": seed}
    fields = {name: value for name, value in given.items() if value is not None}
    with open_client(endpoint, model, timeout) as client:
        if image is None:
            answer = client.images.generate(model=model, prompt=prompt, extra_body=fields)
        else:
            from openai import omit  # noqa: PLC0415 - as above

            answer = client.images.edit(
                model=model,
                prompt=prompt,
                image=image,
                mask=omit if mask is None else mask,
                extra_body=fields,
            )
    return [
        GeneratedImage(
            base64.b64decode(image.b64_json or ""),
            int((image.model_extra or {}).get("seed", (seed or 0) + number)),
        )
        for number, image in enumerate(answer.data or [])
    ]


def generate_video(
    endpoint: str,
    model: str,
    prompt: str,
    *,
    size: str | None = None,
    seed: int | None = None,
    timeout: float = VIDEO_TIMEOUT_SECONDS,
) -> bytes:
    """Return the video that a model generates for a prompt, as an MP4 file.

    Args:
        endpoint: URL of the gateway.
        model: Model.
        prompt: Description of the video.
        size: Size such as 832x480; None: the model's default.
        seed: Seed of the video; None: the model chooses.
        timeout: Maximum wait for the video, in seconds.

    Raises:
        CommandError: The gateway or the model refuses, or no data arrives within the timeout.
    """
    with open_client(endpoint, model, timeout) as client:
        return video_of(client, model, prompt, size=size, seed=seed, timeout=timeout)


def video_of(
    client: "OpenAI",
    model: str,
    prompt: str,
    *,
    timeout: float = VIDEO_TIMEOUT_SECONDS,
    **fields: str | int | None,
) -> bytes:
    """Return the file that a model generates for a prompt.

    Args:
        client: Client, which has no method for this path of vLLM-Omni.
        model: Model.
        prompt: Description of the video.
        timeout: Maximum wait for the video, in seconds.
        fields: Further fields of the request; None for the model's default.
    """
    from openai import HttpxBinaryResponseContent  # noqa: PLC0415 - as above

    given = {name: value for name, value in fields.items() if value is not None}
    body = {"model": model, "prompt": prompt, **given}
    patient = client.with_options(timeout=timeout)
    return patient.post(VIDEO_PATH, cast_to=HttpxBinaryResponseContent, body=body).content


def is_mp4(file: bytes) -> bool:
    """Return whether a file starts as an MP4 does: with the length and type of its first box."""
    return file[4:8] == b"ftyp"


@contextmanager
def open_client(
    endpoint: str,
    subject: str,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    address: str | None = None,
    key: str | None = None,
) -> "Generator[OpenAI]":
    """Yield a client; its errors become one line about the subject.

    Proxies of the environment are ignored: they cannot reach a gateway on this machine.

    Args:
        endpoint: URL of the gateway.
        subject: Model or adapter to ask, or another subject of errors.
        timeout: Maximum wait for the next data, in seconds.
        address: Address to connect to instead of the URL's host; the request keeps the host.
        key: Key of a client; by default the one for the subject.

    Raises:
        CommandError: The gateway or the model refuses, or no data arrives within the timeout.
    """
    import openai  # noqa: PLC0415 - as above

    known = host_of(endpoint)
    trusted: Any = endpoint.startswith("https:") if known is None else known.context()
    http = openai.DefaultHttpxClient(trust_env=False, verify=trusted)
    if address is None and known is not None:
        address = known.address
    if address is not None:
        http.event_hooks = {"request": [partial(_connect_to, address)]}
    chosen = key or key_of(subject)
    client = openai.OpenAI(
        base_url=f"{endpoint}/v1",
        api_key=chosen or _NO_KEY,
        default_headers=headers_with(chosen),
        timeout=timeout,
        max_retries=0,
        http_client=http,
    )
    try:
        with client:
            yield client
    except openai.APITimeoutError:
        raise CommandError(f"{subject}: no data arrived for {timeout:g} s") from None
    except openai.APIError as error:
        raise CommandError(f"{subject}: {_reason(error)}") from None


def _connect_to(address: str, request: Any) -> None:
    """Send a request to an address, with the header and the certificate of the host."""
    request.extensions = {**request.extensions, "sni_hostname": request.url.host}
    request.url = request.url.copy_with(host=address)


def _reason(error: "APIError") -> str:
    response: Any = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code} {refusal(response.content)}"
    if error.body is not None:  # an error in the middle of a stream
        return refusal(json.dumps(error.body).encode())
    return _one_line(str(error.__cause__ or error.message))


def refusal(body: bytes) -> str:
    """Return the message of a refusal in one line: the message of its error, or its text."""
    text = body.decode(errors="replace")
    try:
        document: Any = json.loads(body)
        error: Any = document.get("error") or document.get("fault") or document  # Apigee: fault
        said = error.get("message") or error.get("faultstring") or error.get("detail")
        text = str(said or text)
    except (AttributeError, ValueError):
        pass  # not an object with an error
    return _one_line(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REFUSAL]
