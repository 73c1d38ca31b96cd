"""Media in messages: how many tokens images take, and vLLM's errors for what it does not read.

An image is never looked at. Its tokens follow from its bytes, so that the same image in the next
turn of a conversation is found in the prefix cache.
"""

import base64
import binascii
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from gke_inference.sizing.image_prompts import has_known_images, tokens_of_image
from gke_inference.sizing.shapes import ModelShape
from simulator.engine.settings import Deployment
from simulator.server.bodies import messages, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.templates import prompt_text

Json = dict[str, Any]
_MOST = 999
"""vLLM's default of `--limit-mm-per-prompt`, per kind."""
_MARK = "\x00image\x00"


@dataclass(frozen=True)
class MediaSupport:
    """The images, videos and audio that a model accepts."""

    model: str
    """Model name in the flags."""
    shape: ModelShape
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Largest number in a request by kind of media, where there is a flag."""
    domains: tuple[str, ...] = ()
    """Hosts of `--allowed-media-domains`; empty: all."""
    template: str | None = None
    """Template of `--chat-template`."""

    @classmethod
    def of(cls, deployment: Deployment) -> "MediaSupport":
        """Return what media the model of a deployment accepts."""
        given: Any = deployment.flags.limit_mm_per_prompt
        limits: Json = json.loads(given) if isinstance(given, str) else given or {}
        return cls(
            deployment.model,
            deployment.shape,
            {kind: _count(limit) for kind, limit in limits.items()},
            tuple(deployment.flags.allowed_media_domains or ()),
            deployment.chat_template,
        )

    def check_counts(self, given: Any) -> None:
        """Reject more media than the flags allow (`multimodal/processing/context.py`).

        Raises:
            ApiError: 400 with vLLM's message.
        """
        for kind, count in messages.media_counts(given).items():
            most = self.limits.get(kind, _MOST)
            if count > most:
                said = f"At most {most} {kind}(s) may be provided in one prompt."
                raise ApiError(400, f"{said} (parameter={kind})", param=kind)


def _count(limit: Any) -> int:
    """Return the number in a limit; vLLM also accepts the size of the media it plans for."""
    return int(cast(Json, limit).get("count", _MOST) if isinstance(limit, dict) else limit)


def chat_prompt(given: Any, media: MediaSupport) -> str | list[int]:
    """Return the prompt of a chat: its text, or its tokens if it has images.

    Raises:
        ApiError: the messages are malformed, or have parts that the model does not accept.
    """
    kind = messages.media_of(given)
    if kind is None:
        return prompt_text(given, media.template)
    if media.shape.vision:
        media.check_counts(given)
    is_seen = media.shape.vision and has_known_images(media.shape)
    urls = list(_urls(given)) if is_seen else []
    marked = _marked(given)
    other = messages.media_of(marked)
    if not is_seen or other is not None:
        messages.refuse_media(given if not is_seen else marked, media.model, media.shape.vision)
    parts = prompt_text(marked, media.template).split(_MARK)
    if len(parts) != len(urls) + 1:
        said = "on a simulated engine, a chat template must write the content of every message once"
        raise ApiError(400, said, param="messages")
    tokens = text.tokenize(parts[0])
    for url, part in zip(urls, parts[1:], strict=True):
        tokens += _tokens(url, media)
        tokens += text.tokenize(part)
    return tokens


def _urls(given: Any) -> Iterator[str]:
    for message in cast(list[Json], given):
        content = message.get("content")
        for part in cast(list[Any], content) if isinstance(content, list) else []:
            if _is_image(part):
                image: Any = part["image_url"]
                yield str(cast(Json, image).get("url") if isinstance(image, dict) else image)


def _marked(given: Any) -> list[Json]:
    """Return messages with a mark in the place of each image."""
    out: list[Json] = []
    for message in cast(list[Json], given):
        content = message.get("content")
        if isinstance(content, list):
            parts = cast(list[Any], content)
            content = [{"text": _MARK} if _is_image(part) else part for part in parts]
        out.append({**message, "content": content})
    return out


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and "image_url" in part


def _tokens(url: str, media: MediaSupport) -> list[int]:
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - most engines get no image

    content = _content(url, media.domains)
    try:
        with Image.open(io.BytesIO(content)) as image:
            width, height = image.size
        count = tokens_of_image(media.shape, width, height)
    except (UnidentifiedImageError, Image.DecompressionBombError, ValueError) as error:
        raise ApiError(400, str(error)) from error
    seed = zlib.crc32(content)
    return [zlib.crc32(at.to_bytes(4, "big"), seed) % text.VOCABULARY for at in range(count)]


def _content(url: str, domains: tuple[str, ...]) -> bytes:
    """Return the bytes of a data URL. The errors are vLLM's (`multimodal/media/connector.py`)."""
    scheme, _, rest = url.partition(":")
    if scheme.startswith("http") and domains and (host := _host(url)) not in domains:
        said = f"The URL must be from one of the allowed domains: {list(domains)}."
        raise ApiError(400, f"{said} Input URL domain: {host}")
    if scheme != "data":
        said = "a simulated engine reads no address: an image must be a base64 data URL"
        raise ApiError(400, f"{said}, got {url[:60]!r}.", param="messages")
    head, comma, data = rest.partition(",")
    if not comma:
        raise ApiError(400, f"Invalid data URL {url[:32]!r}: missing ',' separator.")
    if not head.endswith(";base64"):
        raise ApiError(501, "Only base64 data URLs are supported for now.")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ApiError(400, str(error)) from error


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError as error:
        raise ApiError(400, f"Failed to parse: {url[:60]}", param="messages") from error
