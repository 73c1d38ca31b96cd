"""Structured responses of the simulated vLLM: documents for a schema and tool calls."""

import json
from typing import Any

import jsonschema
import pytest

from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.structured import written
from simulator.tests.unit.engine.support import deployment, serve

ASKED = {"messages": [{"role": "user", "content": "Book a table"}]}
PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 12},
        "guests": {"type": "integer", "minimum": 2, "maximum": 9},
        "tags": {"type": "array", "items": {"enum": ["quiet", "window"]}, "minItems": 2},
    },
    "required": ["city", "guests", "tags"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "cancel", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "book", "parameters": PLACE}},
]
NAMED = {"type": "function", "function": {"name": "book"}}
NODE = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["value"],
}


def post(body: Any, *flags: str) -> tuple[int, str]:
    async def use(client: Any, _engine: Any) -> tuple[int, str]:
        answer = await client.post("/v1/chat/completions", json={**ASKED, **body})
        return answer.status, await answer.text()

    return serve(deployment(*flags), use)


def answered(body: Any, *flags: str) -> Any:
    status, text = post(body, *flags)
    assert status == 200, text
    return json.loads(text)["choices"][0]


@pytest.mark.parametrize(
    "schema",
    [
        PLACE,
        {"type": "integer", "exclusiveMinimum": 3, "multipleOf": 4},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "integer", "maximum": -2},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {"allOf": [PLACE, {"properties": {"at": {"format": "date", "type": "string"}}}]},
        {"type": ["string", "null"], "maxLength": 3},
        {"type": "array", "prefixItems": [{"const": 1}, {"const": "a"}], "minItems": 2},
        {"type": "boolean"},
        {},
    ],
)
def test_a_document_fits_its_schema(schema: Any):
    jsonschema.validate(
        json.loads(written(schema)), schema, format_checker=jsonschema.FormatChecker()
    )


def test_a_schema_that_cannot_be_filled_is_refused_in_words():
    with pytest.raises(ApiError, match="pattern in a schema is not available"):
        written({"type": "string", "pattern": "^[A-Z]{3}$"})


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"$ref": "#/$defs/node"}, r"a \$ref to what is not there \(#/\$defs/node\)"),
        ({"$ref": 5}, r"a \$ref to what is not there"),
        ({"enum": []}, "a rule that is not as JSON Schema has it"),
        ({"type": "string", "minLength": "many"}, "a rule that is not as JSON Schema has it"),
        ({"type": "object", "required": 5}, "a rule that is not as JSON Schema has it"),
        ({"type": "integer", "minimum": "low"}, "a rule that is not as JSON Schema has it"),
        ({"items": 5, "minItems": 1}, "a rule that is not as JSON Schema has it"),
        ({"anyOf": 5}, "a rule that is not as JSON Schema has it"),
    ],
)
def test_a_schema_that_does_not_hold_together_is_refused(schema: Any, problem: str):
    with pytest.raises(ApiError, match=problem):
        written(schema)


def test_an_answer_of_a_schema_is_a_document_of_it():
    schema = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
    choice = answered({"response_format": schema})
    jsonschema.validate(json.loads(choice["message"]["content"]), PLACE)
    assert choice["finish_reason"] == "stop"


def test_a_limit_of_tokens_cuts_a_document_as_it_cuts_a_text():
    schema = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
    choice = answered({"response_format": schema, "max_tokens": 4})
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("choice", "name", "reason"), [(NAMED, "book", "stop"), ("required", "cancel", "tool_calls")]
)
def test_a_tool_that_must_be_called_is_called(choice: Any, name: str, reason: str):
    found = answered({"tools": TOOLS, "tool_choice": choice})
    (call,) = found["message"]["tool_calls"]
    assert (call["function"]["name"], found["finish_reason"]) == (name, reason)
    assert call["type"] == "function"
    parameters = {"book": PLACE, "cancel": {"type": "object"}}[name]
    jsonschema.validate(json.loads(call["function"]["arguments"]), parameters)


def test_a_streamed_call_names_its_tool_once_and_sends_its_arguments_in_parts():
    _, text = post({"tools": TOOLS, "tool_choice": NAMED, "stream": True})
    events = [json.loads(line[6:]) for line in text.strip().split("\n\n")[:-1]]
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0]["role"] == "assistant"
    parts = [delta["tool_calls"][0] for delta in deltas[1:]]
    assert [part["function"].get("name") for part in parts] == ["book"] + [None] * (len(parts) - 1)
    whole = "".join(part["function"]["arguments"] for part in parts)
    jsonschema.validate(json.loads(whole), PLACE)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tools": TOOLS}, '"auto" tool choice requires --enable-auto-tool-choice'),
        ({"tool_choice": "required"}, "When using `tool_choice`, `tools` must be set."),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "pay"}}},
            "The tool specified in `tool_choice` does not match any of the specified `tools`",
        ),
    ],
)
def test_what_vllm_refuses_of_tools_is_refused(body: Any, message: str):
    status, text = post(body)
    assert status == 400
    assert json.loads(text)["error"]["message"].startswith(message)


def test_a_server_that_may_choose_calls_a_tool_for_a_question_and_answers_its_result_with_text():
    flags = ("--enable-auto-tool-choice", "--tool-call-parser=hermes")
    asked = answered({"tools": TOOLS}, *flags)
    (call,) = asked["message"]["tool_calls"]
    assert (call["function"]["name"], asked["finish_reason"]) == ("cancel", "tool_calls")
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "done"},
    ]
    told = answered({"tools": TOOLS, "messages": messages}, *flags)["message"]
    assert told["content"]
    assert not told.get("tool_calls")


def test_a_server_that_may_choose_answers_with_text_where_it_can_fill_no_arguments():
    flags = ("--enable-auto-tool-choice", "--tool-call-parser=hermes")
    plate = {"type": "object", "properties": {"p": {"type": "string", "pattern": "^A"}}}
    tool = {"name": "park", "parameters": {**plate, "required": ["p"]}}
    tools = [{"type": "function", "function": tool}]
    assert answered({"tools": tools}, *flags)["message"]["content"]
