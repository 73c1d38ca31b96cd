"""The Messages API of the simulated engine, read by Anthropic's client and its types."""

from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError, NotFoundError

from simulator.engine.engine import Engine
from simulator.tests.unit.engine.support import MODEL, deployment, serve

TOOL = {
    "name": "look",
    "input_schema": {"properties": {"a": {"enum": ["x"]}}, "required": ["a"]},
}
WITH_TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
CALLED = {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "look"}}
HI = [{"role": "user", "content": "hi"}]


def ask(*flags: str, count: bool = False, **fields: Any) -> Any:
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": HI,
        **({} if count else {"max_tokens": 100}),
        **fields,
    }

    async def use(client: Any, _engine: Engine) -> Any:
        async with AsyncAnthropic(
            base_url=str(client.make_url("")), api_key="-", _strict_response_validation=True
        ) as api:
            if count:
                return (await api.messages.count_tokens(**body)).input_tokens
            if not fields.get("stream"):
                return await api.messages.create(**body)
            return [event async for event in await api.messages.create(**body)]

    return serve(deployment(*flags), use)


def test_a_message_has_text_and_usage_and_says_why_it_ends():
    cut = ask(max_tokens=12)
    assert cut.content[0].text.startswith("This is a simulated answer of llama-3.")
    assert (cut.stop_reason, cut.usage.output_tokens, cut.role) == ("max_tokens", 12, "assistant")
    assert (ask(max_tokens=999).stop_reason, ask(count=True)) == (
        "end_turn",
        cut.usage.input_tokens,
    )
    stopped = ask(stop_sequences=[" simulated"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " simulated")


def test_cached_tokens_are_no_input_tokens():
    long: Any = [{"role": "user", "content": "the same words " * 200}]

    async def use(client: Any, _engine: Engine) -> Any:
        async with AsyncAnthropic(base_url=str(client.make_url("")), api_key="-") as api:
            made = [
                await api.messages.create(model=MODEL, max_tokens=1, messages=long)
                for _ in range(2)
            ]
            return [one.usage for one in made]

    first, second = serve(deployment("--enable-prompt-tokens-details"), use)
    assert (first.cache_read_input_tokens, second.cache_read_input_tokens > 0) == (0, True)
    assert second.input_tokens + second.cache_read_input_tokens == first.input_tokens


def test_the_events_of_a_stream_are_those_of_a_message():
    events = ask(stream=True, max_tokens=6)
    kinds = [event.type for event in events if event.type != "content_block_delta"]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    said = "".join(e.delta.text for e in events if e.type == "content_block_delta")
    assert said == ask(max_tokens=6).content[0].text
    assert events[-2].usage.output_tokens == 6


def test_a_tool_is_called_and_its_result_is_a_part_of_the_next_prompt():
    answer = ask(*WITH_TOOLS, **CALLED)
    (call,) = answer.content
    assert (call.type, call.name, call.input) == ("tool_use", "look", {"a": "x"})
    assert answer.stop_reason == "tool_use"
    events = ask(*WITH_TOOLS, **CALLED, stream=True)
    parts = [e.delta.partial_json for e in events if e.type == "content_block_delta"]
    assert "".join(parts) == '{"a": "x"}'
    turn = [call.model_dump(exclude_none=True)]
    done = [{"type": "tool_result", "tool_use_id": call.id, "content": "it is there " * 9}]
    more = [*HI, {"role": "assistant", "content": turn}, {"role": "user", "content": done}]
    assert ask(count=True, messages=more) > ask(count=True, messages=more[:2]) > ask(count=True)
    assert ask(messages=more, max_tokens=999).stop_reason == "end_turn"


def test_system_texts_count_but_the_line_that_agents_change_with_each_request():
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1f0"}
    told = [{"type": "text", "text": "Be short."}]
    assert ask(count=True, system=[billing, *told]) == ask(count=True, system="Be short.")
    assert ask(count=True, system="Be short.") > ask(count=True)


@pytest.mark.parametrize(
    ("fields", "error", "problem"),
    [
        ({"max_tokens": 0}, BadRequestError, "greater_than"),
        ({"max_tokens": 10**9, "timeout": 60}, BadRequestError, "too large"),
        ({"messages": [{"role": "tool", "content": "x"}]}, BadRequestError, "literal_error"),
        ({"messages": []}, BadRequestError, "empty conversation"),
        ({"model": "gpt-9"}, NotFoundError, "does not exist"),
        ({"tools": [TOOL]}, BadRequestError, "requires --enable-auto-tool-choice"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            BadRequestError,
            "must be less than max_tokens",
        ),
    ],
)
def test_what_vllm_refuses_is_refused(fields: Any, error: type[Exception], problem: str):
    with pytest.raises(error, match=problem):
        ask(**fields)


def test_errors_have_anthropics_form_but_those_of_fields():
    async def use(client: Any, _engine: Engine) -> Any:
        body: dict[str, Any] = {"model": "gpt-9", "max_tokens": 1, "messages": HI}
        answers = [await client.post("/v1/messages", json=body)]
        answers.append(await client.post("/v1/messages", json={**body, "max_tokens": "x"}))
        return [await answer.json() for answer in answers]

    unknown, field = serve(deployment(), use)
    assert (unknown["type"], unknown["error"]["type"]) == ("error", "NotFoundError")
    assert ("type" in field, field["error"]["type"]) == (False, "Bad Request")
