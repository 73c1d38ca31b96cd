"""Messages of a chat: their text, and parts that are not text."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from simulator.server.bodies.errors import ApiError

Json = dict[str, Any]
_MEDIA = {
    "audio_embeds": "audio",
    "audio_url": "audio",
    "image_embeds": "image",
    "image_pil": "image",
    "image_url": "image",
    "input_audio": "audio",
    "prompt_embeds": "",
    "video_url": "video",
}
"""Message parts that are not text for vLLM (`renderers/chat_utils`), with their kind of media."""


def chat_text(messages: Any) -> str:
    """Return the prompt that a chat template would create from messages.

    Raises:
        ApiError: a message has no role, or its content is neither text nor parts.
    """
    if messages == []:
        raise ApiError(
            400,
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
        )
    if not isinstance(messages, list):
        raise ApiError(400, "messages must be a list with at least one item.", param="messages")
    out: list[str] = []
    items = cast(list[Any], messages)
    for message in items:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, "each of messages must have a role.", param="messages")
        content = content_text(cast(Json, message))
        out.append(f"<{message['role']}>\n{content}\n")
    return "".join(out) + "<assistant>\n"


def content_text(message: Json) -> str:
    """Return the text of a message.

    Raises:
        ApiError: its content is neither text nor parts.
    """
    content: Any = message.get("content") or ""
    if isinstance(content, list):
        return "".join(map(_part, cast(list[Any], content)))
    if not isinstance(content, str):
        raise ApiError(400, "content must be a text or a list of parts.", param="messages")
    return content


def media_of(messages: Any) -> str | None:
    """Return the type of the first part that is not text, such as `image_url`, or None."""
    return next(_media(messages), None)


def media_counts(messages: Any) -> Counter[str]:
    """Return how many images, videos and audio clips messages have, by `image` and so on."""
    return Counter(kind for part in _media(messages) if (kind := _MEDIA[part]))


def _media(messages: Any) -> Iterator[str]:
    """Yield the types of the parts that are not text."""
    items: list[Any] = messages if isinstance(messages, list) else []
    for message in items:
        content: Any = message.get("content") if isinstance(message, dict) else None
        parts: list[Any] = content if isinstance(content, list) else []
        for part in parts:
            if isinstance(part, dict):
                given = cast(Json, part)
                types = (each for each in _MEDIA if given.get("type") == each or each in given)
                if (found := next(types, None)) is not None:
                    yield found


def refuse_media(messages: Any, model: str, has_vision: bool | None) -> None:
    """Reject messages with parts that are not text, whose token count is not simulated.

    Args:
        messages: messages of a chat.
        model: model name in the flags.
        has_vision: whether it accepts images; None if unknown.

    Raises:
        ApiError: 400, with vLLM's message (`multimodal/registry.py`) if the model accepts only
            text.
    """
    kind = media_of(messages)
    if kind is None:
        return
    if has_vision is False:
        raise ApiError(400, f"{model} is not a multimodal model")
    said = f"{kind} in messages is not available on a simulated engine."
    raise ApiError(400, said, param="messages")


def _part(part: Any) -> str:
    """Return the text of a part of a message's content."""
    if isinstance(part, str):
        return part
    text: Any = part.get("text", "") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise ApiError(400, "each part of content must be a text or a mapping.", param="messages")
    return text
