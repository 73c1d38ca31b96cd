"""Log probabilities, documents and calls of the simulated TGI, as of v3.3.7."""

import json
from typing import Any

import pytest

from simulator.tests.unit.dialects.support import BOOK, PERSON, asked, events, value
from simulator.tests.unit.dialects.test_tgi import ARGUMENTS, chat

REQUIRED = {"tools": [BOOK], "tool_choice": "required"}
GRAMMAR = {"type": "json", "value": PERSON}


def tool_of(**function: Any) -> Any:
    return {"tools": [{"type": "function", "function": function}]}


def test_it_reads_no_n():
    ((_, body),) = asked("tgi", ARGUMENTS, chat(max_tokens=4, n=3))
    assert len(body["choices"]) == 1


def test_log_probabilities_have_no_bytes():
    ((_, body),) = asked("tgi", ARGUMENTS, chat(max_tokens=4, logprobs=True, top_logprobs=2))
    (choice,) = body["choices"]
    content = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in content) == choice["message"]["content"]
    assert {tuple(each) for each in content} == {("token", "logprob", "top_logprobs")}
    assert [len(each["top_logprobs"]) for each in content] == [2] * 4


def test_alternatives_are_limited_even_if_they_are_not_returned():
    found = asked("tgi", ARGUMENTS, chat(max_tokens=4, top_logprobs=6), chat(top_logprobs=5))
    said = "Input validation error: `top_n_tokens` must be >= 0 and <= 5. Given: 6"
    assert found[0] == (422, {"error": said, "error_type": "validation"})
    assert found[1][1]["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    "grammar",
    [
        GRAMMAR,
        {"type": "json_object", "value": PERSON},
        {"type": "json", "value": json.dumps(PERSON)},
        {"type": "json_schema", "value": {"name": "person", "schema": PERSON}},
    ],
)
def test_a_document_matches_its_grammar(grammar: Any):
    ((_, body),) = asked("tgi", ARGUMENTS, chat(max_tokens=100, response_format=grammar))
    (choice,) = body["choices"]
    assert json.loads(choice["message"]["content"]) == {"name": "simulated", "age": 18}
    assert choice["finish_reason"] == "stop"


def test_generate_takes_a_grammar_too():
    body = {"inputs": "one", "parameters": {"max_new_tokens": 100, "grammar": GRAMMAR}}
    ((_, answer),) = asked("tgi", ARGUMENTS, ("/generate", body))
    assert json.loads(answer["generated_text"]) == {"name": "simulated", "age": 18}


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": PERSON}},
            "response_format: missing field `value`",
        ),
        (
            {"type": "text"},
            "response_format: unknown variant `text`, expected one of `json`, `json_object`, "
            "`regex`, `json_schema`",
        ),
        ({"value": PERSON}, "response_format: missing field `type`"),
    ],
)
def test_the_forms_of_openai_are_not_tgis(grammar: Any, said: str):
    before = "Failed to deserialize the JSON body into the target type: "
    assert asked("tgi", ARGUMENTS, chat(response_format=grammar)) == [(422, before + said)]


def test_a_grammar_without_properties_is_invalid():
    grammar = {"type": "json", "value": {"type": "object"}}
    ((status, body),) = asked("tgi", ARGUMENTS, chat(response_format=grammar))
    said = "Input validation error: grammar is not valid: Grammar must have a 'properties' field"
    assert (status, body) == (422, {"error": said, "error_type": "validation"})


def test_a_server_can_refuse_grammars():
    flags = [*ARGUMENTS, "--disable-grammar-support"]
    ((status, body),) = asked("tgi", flags, chat(response_format=GRAMMAR))
    assert (status, body["error"]) == (422, "Input validation error: grammar is not supported")


@pytest.mark.parametrize(
    "choice",
    ["required", "book", {"type": "function", "function": {"name": "book"}}],
)
def test_a_forced_call_has_the_number_zero_and_valid_arguments(choice: Any):
    ((_, body),) = asked("tgi", ARGUMENTS, chat(max_tokens=99, tools=[BOOK], tool_choice=choice))
    (found,) = body["choices"]
    (call,) = found["message"]["tool_calls"]
    assert "content" not in found["message"]
    assert call == {
        "id": "0",
        "type": "function",
        "function": {"description": None, "name": "book", "arguments": '{"city":"simulated"}'},
    }
    assert found["finish_reason"] == "stop"


def test_a_streamed_call_names_its_tool_once():
    ((_, text),) = asked("tgi", ARGUMENTS, chat(max_tokens=99, stream=True, **REQUIRED))
    choices = [part["choices"][0] for part in events(text)]
    functions = [choice["delta"]["tool_calls"][0]["function"] for choice in choices]
    assert [each["name"] for each in functions][:2] == ["book", None]
    arguments = "".join(each["arguments"] for each in functions)
    assert json.loads(arguments) == {"city": "simulated"}
    assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("calls", "number"),
    [
        ([{"id": "0"}, {"id": "4"}], "5"),
        ([{"id": "call_a"}, {"id": "²"}], "0"),
        ([5], "0"),
        (5, "0"),
    ],
)
def test_a_streamed_call_has_the_number_after_the_largest(calls: Any, number: str):
    messages = [{"role": "user", "content": "x", "tool_calls": calls}]
    ((_, text),) = asked(
        "tgi", ARGUMENTS, chat(max_tokens=99, stream=True, messages=messages, **REQUIRED)
    )
    first = events(text)[0]["choices"][0]["delta"]["tool_calls"][0]
    assert first["id"] == number


def test_calls_of_the_wrong_form_are_no_message():
    messages = [{"role": "assistant", "tool_calls": [5]}]
    ((status, text),) = asked("tgi", ARGUMENTS, chat(messages=messages))
    assert status == 422
    assert text.endswith("data did not match any variant of untagged enum MessageBody")


def test_a_call_without_arguments_is_streamed_as_an_empty_object():
    tools = tool_of(name="stop", parameters={"type": "object"})
    ((_, text),) = asked(
        "tgi", ARGUMENTS, chat(max_tokens=99, stream=True, tool_choice="stop", **tools)
    )
    calls = [part["choices"][0]["delta"]["tool_calls"][0] for part in events(text)]
    assert "".join(call["function"]["arguments"] for call in calls) == "{}"


def test_a_tool_that_may_be_called_costs_a_second_answer():
    found = asked("tgi", ARGUMENTS, chat(max_tokens=20, tools=[BOOK]), "/metrics")
    assert found[0][1]["choices"][0]["message"]["content"]
    page = found[1][1]
    assert value(page, "tgi_request_count") == 1
    assert value(page, "tgi_request_success") == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {**REQUIRED, "response_format": GRAMMAR},
            "Tool error: Grammar and tools are mutually exclusive",
        ),
        (
            {"tools": [BOOK], "tool_choice": "sell"},
            "Tool error: Tool with name sell not found",
        ),
        (
            {"max_tokens": 5, **REQUIRED},
            "Tool error: Failed to parse generated text: EOF while parsing",
        ),
    ],
)
def test_calls_that_cannot_be_are_422(fields: Any, said: str):
    ((status, body),) = asked("tgi", ARGUMENTS, chat(**fields))
    assert (status, body["error_type"]) == (422, "tool_error")
    assert body["error"].startswith(said)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (tool_of(name="book"), "tools[0].function: missing field `arguments`"),
        ({"tools": [{"function": BOOK["function"]}]}, "tools[0]: missing field `type`"),
        (
            {"tools": [BOOK], "tool_choice": 5},
            "tool_choice: data did not match any variant of untagged enum ToolTypeDeserializer",
        ),
    ],
)
def test_tools_of_the_wrong_form_are_serdes_422(fields: Any, said: str):
    ((status, text),) = asked("tgi", ARGUMENTS, chat(**fields))
    assert (status, text.partition("type: ")[2]) == (422, said)


def test_a_regex_is_refused_and_not_ignored():
    ((status, body),) = asked(
        "tgi", ARGUMENTS, chat(response_format={"type": "regex", "value": "[a-z]+"})
    )
    assert status == 400
    assert "not available on a simulated engine" in body["error"]
