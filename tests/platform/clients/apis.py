"""One script for the official clients of OpenAI's Responses API and Anthropic's Messages API."""

import base64
import io
from typing import Any

import anthropic
import openai
import pytest
from PIL import Image

MODEL = "support"
"""Adapter that the script asks, so that its records are not those of the test's own requests."""
QUESTION = "Which keys open which doors?"
SCHEMA = {"type": "object", "properties": {"door": {"enum": ["north"]}}, "required": ["door"]}


def use_responses(client: openai.OpenAI) -> int:
    """Ask, stream, and go on with the items of an answer; return the tokens of the answers."""
    whole = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=8)
    assert whole.output_text
    streamed = client.responses.create(
        model=MODEL, input=QUESTION, max_output_tokens=8, stream=True
    )
    events: list[Any] = list(streamed)
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == whole.output_text
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    items: Any = [{"role": "user", "content": QUESTION}, *(item.to_dict() for item in whole.output)]
    items.append({"role": "user", "content": "And the north?"})
    again = client.responses.create(model=MODEL, input=items, max_output_tokens=8)
    used = [whole.usage, last.response.usage, again.usage]
    return sum(usage.output_tokens for usage in used if usage is not None)


def use_messages(client: anthropic.Anthropic) -> int:
    """Count, ask, stream, call a tool and send its result; return the tokens of the answers."""
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}]}
    counted = client.messages.count_tokens(**asked).input_tokens
    whole = client.messages.create(**asked, max_tokens=8)
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (counted, 8)
    with client.messages.stream(**asked, max_tokens=8) as stream:
        streamed = stream.get_final_message()
    said = [
        [block.text for block in one.content if block.type == "text"] for one in (whole, streamed)
    ]
    assert said[0] == said[1] != []
    tool: Any = {"name": "open", "input_schema": SCHEMA}
    forced: Any = {"tools": [tool], "tool_choice": {"type": "tool", "name": "open"}}
    call = client.messages.create(**asked, max_tokens=100, **forced)
    (block,) = call.content
    assert (block.type, call.stop_reason) == ("tool_use", "tool_use")
    result: Any = {"type": "tool_result", "tool_use_id": block.id, "content": "It is open."}
    turns: Any = [
        *asked["messages"],
        {"role": "assistant", "content": call.content},
        {"role": "user", "content": [result]},
    ]
    after = client.messages.create(model=MODEL, messages=turns, max_tokens=8)
    return sum(answer.usage.output_tokens for answer in (whole, streamed, call, after))


def leave_a_message(client: anthropic.Anthropic) -> None:
    """Read the beginning of a long answer and disconnect."""
    messages: Any = [{"role": "user", "content": "Tell me everything about doors and keys."}]
    with client.messages.stream(model=MODEL, messages=messages, max_tokens=4000) as stream:
        assert next(stream.text_stream)


def refusals(client: anthropic.Anthropic) -> list[tuple[str, str]]:
    """Return the class and type of the errors of a model that the team has not, and of an image."""
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "PNG")
    png = base64.b64encode(image.getvalue()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": png}
    asked: list[tuple[str, Any]] = [
        ("sql", QUESTION),
        (MODEL, [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]),
    ]
    return [error_of(client, model, content) for model, content in asked]


def error_of(client: anthropic.Anthropic, model: str, content: Any) -> tuple[str, str]:
    """Return the class and the type of the error of a message."""
    with pytest.raises(anthropic.APIStatusError) as refused:
        client.messages.create(
            model=model, max_tokens=8, messages=[{"role": "user", "content": content}]
        )
    body: Any = refused.value.body
    assert body["type"] == "error"
    return type(refused.value).__name__, body["error"]["type"]
