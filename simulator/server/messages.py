"""Messages of a chat: the text that they are, and what is none."""

from typing import Any, cast

from simulator.server.errors import ApiError

Json = dict[str, Any]
_MEDIA = (
    "audio_embeds",
    "audio_url",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "prompt_embeds",
    "video_url",
)
"""Parts of a message that are no text to vLLM (`entrypoints/chat_utils.py`)."""


def chat_text(messages: Any) -> str:
    """Return the prompt that a chat template would make of messages.

    Raises:
        ApiError: a message has no role, or content that is neither text nor parts of it.
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
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):  # pyright: ignore[reportUnknownMemberType]
            raise ApiError(400, "each of messages must have a role.", param="messages")
        content: Any = message.get("content") or ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(content, list):
            content = "".join(map(_part, cast(list[Any], content)))
        elif not isinstance(content, str):
            raise ApiError(400, "content must be a text or a list of parts.", param="messages")
        out.append(f"<{message['role']}>\n{content}\n")
    return "".join(out) + "<assistant>\n"


def media_of(messages: Any) -> str | None:
    """Return the kind of a part of messages that is no text, such as `image_url`; None: no such."""
    items: list[Any] = messages if isinstance(messages, list) else []  # pyright: ignore[reportUnknownVariableType]
    for message in items:
        content: Any = message.get("content") if isinstance(message, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        parts: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
        for part in parts:
            if isinstance(part, dict):
                given = cast(Json, part)
                for kind in _MEDIA:
                    if given.get("type") == kind or kind in given:
                        return kind
    return None


def refuse_media(messages: Any, model: str, *, has_vision: bool | None) -> None:
    """Turn away messages with parts that are no text: what they cost in tokens is not simulated.

    Args:
        messages: of a chat.
        model: as the flags name it.
        has_vision: whether it takes images; None: not known.

    Raises:
        ApiError: 400, in vLLM's words (`multimodal/registry.py`) where the model takes text alone.
    """
    kind = media_of(messages)
    if kind is None:
        return
    if has_vision is False:
        raise ApiError(400, f"{model} is not a multimodal model")
    said = f"{kind} in messages is not available on a simulated engine."
    raise ApiError(400, said, param="messages")


def _part(part: Any) -> str:
    """Return the text of one part of a message's content."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or not isinstance(part.get("text", ""), str):  # pyright: ignore[reportUnknownMemberType]
        raise ApiError(400, "each part of content must be a text or a mapping.", param="messages")
    return part.get("text", "")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
