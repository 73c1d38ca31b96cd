"""The Responses API of the simulated engine, with OpenAI's client where it reads the answer."""

from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from simulator.engine.engine import Engine
from simulator.tests.unit.engine.support import MODEL, deployment, serve

TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]},
}
WITH_TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


def ask(*flags: str, **fields: Any) -> Any:
    async def use(client: Any, _engine: Engine) -> Any:
        async with AsyncOpenAI(base_url=str(client.make_url("/v1")), api_key="-") as api:
            made = await api.responses.create(model=MODEL, **fields)
            return [event async for event in made] if fields.get("stream") else made

    return serve(deployment(*flags), use)


def test_a_response_has_text_and_usage_and_says_why_it_ends():
    answer = ask(input="How does a batch work?", max_output_tokens=12)
    assert answer.output_text.startswith("This is a simulated answer of llama-3.")
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.usage.output_tokens == 12
    whole = ask(input="How does a batch work?")
    assert (whole.status, whole.incomplete_details) == ("completed", None)


def test_messages_and_instructions_are_one_conversation():
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    plain = ask(input="hi", max_output_tokens=4)
    assert ask(input=parts, max_output_tokens=4).output_text == plain.output_text
    told = ask(input="hi", instructions="Be short.", max_output_tokens=4)
    assert told.usage.input_tokens > plain.usage.input_tokens


def test_the_events_of_a_stream_are_numbered_and_end_with_the_whole_response():
    events = ask(input="hi", max_output_tokens=6, stream=True)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events if not event.type.endswith("delta")]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == events[-1].response.output_text
    assert said == ask(input="hi", max_output_tokens=6).output_text


def test_a_schema_is_filled_and_a_forced_tool_is_called():
    form = {"type": "json_schema", "name": "answer", "schema": TOOL["parameters"]}
    assert ask(input="hi", text={"format": form}).output_text == '{"a": "x"}'
    choice = {"type": "function", "name": "look"}
    (call,) = ask(*WITH_TOOLS, input="hi", tools=[TOOL], tool_choice=choice).output
    assert (call.type, call.name, call.arguments) == ("function_call", "look", '{"a": "x"}')
    events = ask(*WITH_TOOLS, input="hi", tools=[TOOL], tool_choice=choice, stream=True)
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert [e.arguments for e in done] == ['{"a": "x"}']


def test_a_server_without_a_tool_parser_leaves_the_call_in_the_text():
    answer = ask(input="hi", tools=[TOOL], tool_choice="required", max_output_tokens=4)
    assert [item.type for item in answer.output] == ["message"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tools": [{"type": "function"}]}, "'FunctionTool', 'name'.*'Field required'"),
        ({"tools": []}, "'required' must be specified with 'tools'"),
    ],
)
def test_a_required_tool_must_have_a_name(fields: Any, problem: str):
    with pytest.raises(BadRequestError) as caught:
        ask(*WITH_TOOLS, input="hi", tool_choice="required", **fields)
    assert caught.match(problem)


@pytest.mark.parametrize(
    ("fields", "error", "problem"),
    [
        ({"background": True}, BadRequestError, "does not support the background mode"),
        ({"previous_response_id": "resp_1"}, NotFoundError, "'resp_1' not found"),
        ({"max_output_tokens": 10**9}, BadRequestError, "cannot be greater than max_model_len"),
        ({"input": []}, BadRequestError, "empty conversation"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, BadRequestError, "item_reference"),
    ],
)
def test_what_needs_stored_responses_or_has_no_room_is_refused(
    fields: Any, error: type[Exception], problem: str
):
    with pytest.raises(error, match=problem):
        ask(**{"input": "hi", **fields})
