"""Choices, log probabilities, documents and calls of the simulated SGLang, as of 0.5.23."""

import json
from typing import Any

import pytest

from simulator.tests.unit.dialects.support import BOOK, PERSON, asked, events, value
from simulator.tests.unit.dialects.test_sglang import ARGUMENTS, MODEL, TOLD, chat

PARSER = [*ARGUMENTS, "--tool-call-parser=llama3"]
REQUIRED = {"tools": [BOOK], "tool_choice": "required"}
NAMED = {"tools": [BOOK], "tool_choice": {"type": "function", "function": {"name": "book"}}}
DOCUMENT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}


def completion(**fields: Any) -> tuple[str, Any]:
    return "/v1/completions", {"model": MODEL, "max_tokens": 6, **fields}


def test_each_of_n_choices_has_its_text_and_the_prompt_counts_once():
    found = asked("sglang", ARGUMENTS, chat(max_tokens=20), chat(max_tokens=20, n=3))
    one, three = (body for _, body in found)
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in three["choices"]}) == 3
    assert three["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert three["usage"]["completion_tokens"] == 60


def test_several_choices_read_a_prompt_that_was_computed_before_them():
    messages = [{"role": "user", "content": "word " * 40}]
    ((_, body), (_, page)) = asked(
        "sglang",
        [*ARGUMENTS, "--enable-cache-report"],
        chat(max_tokens=4, n=2, messages=messages),
        "/metrics",
    )
    usage = body["usage"]
    assert usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"] <= 16
    assert value(page, f"sglang:num_requests_total{TOLD}") == 3


def test_choices_of_several_prompts_are_numbered_through():
    ((_, body),) = asked("sglang", ARGUMENTS, completion(prompt=["one", "two three"], n=2))
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"]["prompt_tokens"] == 3
    assert body["usage"]["completion_tokens"] == 24


def test_choices_are_streamed_side_by_side_and_their_reasons_come_last():
    ((_, text),) = asked(
        "sglang",
        ARGUMENTS,
        chat(max_tokens=3, n=2, stream=True, stream_options={"include_usage": True}),
    )
    *parts, first, second, usage = events(text)
    assert {part["choices"][0]["finish_reason"] for part in parts} == {None}
    for index in (0, 1):
        role, *rest = [p["choices"][0] for p in parts if p["choices"][0]["index"] == index]
        assert role["delta"]["role"] == "assistant"
        assert rest
    ends = [each["choices"][0] for each in (first, second)]
    assert [(end["index"], end["finish_reason"]) for end in ends] == [(0, "length"), (1, "length")]
    assert usage["usage"]["completion_tokens"] == 6


def test_log_probabilities_of_a_chat_name_the_alternatives_asked_for():
    ((_, body),) = asked("sglang", ARGUMENTS, chat(max_tokens=4, logprobs=True, top_logprobs=2))
    (choice,) = body["choices"]
    content = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in content) == choice["message"]["content"]
    assert {len(each["top_logprobs"]) for each in content} == {2}
    assert all(each["logprob"] < 0 for each in content)


def test_a_stream_has_the_log_probabilities_of_its_tokens():
    ((_, text),) = asked("sglang", ARGUMENTS, chat(max_tokens=4, logprobs=True, stream=True))
    likely = [part["choices"][0]["logprobs"] for part in events(text)]
    tokens = [each["token"] for found in likely if found for each in found["content"]]
    assert len(tokens) == 4


def test_log_probabilities_of_a_completion_have_no_offsets():
    ((_, body),) = asked("sglang", ARGUMENTS, completion(prompt="one", logprobs=2))
    (choice,) = body["choices"]
    found = choice["logprobs"]
    assert found["text_offset"] == [-1] * 6
    assert "".join(found["tokens"]) == choice["text"]
    assert {len(each) for each in found["top_logprobs"]} == {2}


@pytest.mark.parametrize("path", ["chat", "completion"])
def test_a_document_matches_the_schema_that_was_asked_for(path: str):
    request = chat if path == "chat" else completion
    more = {} if path == "chat" else {"prompt": "one"}
    ((_, body),) = asked(
        "sglang", ARGUMENTS, request(**more, max_tokens=100, response_format=DOCUMENT)
    )
    (choice,) = body["choices"]
    text = choice["message"]["content"] if path == "chat" else choice["text"]
    assert json.loads(text) == {"name": "simulated", "age": 18}
    assert choice["finish_reason"] == "stop"


def test_an_object_without_a_schema_is_an_object():
    ((_, body),) = asked(
        "sglang", ARGUMENTS, chat(max_tokens=9, response_format={"type": "json_object"})
    )
    assert json.loads(body["choices"][0]["message"]["content"]) == {}


@pytest.mark.parametrize("wanted", [REQUIRED, NAMED])
def test_a_forced_call_is_a_call_with_valid_arguments(wanted: Any):
    ((_, body),) = asked("sglang", PARSER, chat(max_tokens=100, **wanted))
    (choice,) = body["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["message"]["content"] == ""
    assert (call["index"], call["type"], call["function"]["name"]) == (0, "function", "book")
    assert json.loads(call["function"]["arguments"]) == {"city": "simulated"}
    assert call["id"].startswith("call_")
    assert (choice["finish_reason"], choice["matched_stop"]) == ("tool_calls", None)


def test_a_server_without_a_parser_leaves_a_forced_call_in_the_text():
    ((_, body),) = asked("sglang", ARGUMENTS, chat(max_tokens=100, **REQUIRED))
    (choice,) = body["choices"]
    assert "tool_calls" not in choice["message"]
    found = json.loads(choice["message"]["content"])
    assert found == [{"name": "book", "parameters": {"city": "simulated"}}]
    assert choice["finish_reason"] == "stop"


def test_a_call_that_the_token_limit_cuts_is_text():
    ((_, body),) = asked("sglang", PARSER, chat(max_tokens=5, **REQUIRED))
    (choice,) = body["choices"]
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_a_stop_text_cuts_is_none(stream: bool):
    ((_, body),) = asked("sglang", PARSER, chat(max_tokens=99, stop="city", stream=stream, **NAMED))
    choice = (events(body)[-1] if stream else body)["choices"][0]
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", "city")
    if not stream:
        assert "tool_calls" not in choice["message"]
        assert choice["message"]["content"].startswith('[{"name": "book"')


def test_a_streamed_call_has_its_name_once_and_then_its_arguments():
    ((_, text),) = asked("sglang", PARSER, chat(max_tokens=100, stream=True, **NAMED))
    choices = [part["choices"][0] for part in events(text)]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
    assert [call["function"]["name"] for call in calls][:2] == ["book", None]
    assert {call["id"] for call in calls[1:]} == {None}
    arguments = "".join(call["function"]["arguments"] for call in calls)
    assert json.loads(arguments) == {"city": "simulated"}
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_a_tool_that_may_be_called_is_not():
    ((_, body),) = asked("sglang", PARSER, chat(max_tokens=9, tools=[BOOK]))
    assert "tool_calls" not in body["choices"][0]["message"]


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        (
            {"tool_choice": "required"},
            "BadRequestError",
            "Tools cannot be empty if tool choice is set to required.",
        ),
        (
            {"tool_choice": NAMED["tool_choice"]},
            "BadRequestError",
            "Tools cannot be empty if tool choice is set to a specific tool.",
        ),
        (
            {"tools": [BOOK], "tool_choice": {"function": {"name": "sell"}}},
            "BadRequestError",
            "Tool 'sell' not found in tools list.",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "BadRequestError",
            "schema_ is required for json_schema response format request.",
        ),
        (
            {**REQUIRED, "response_format": DOCUMENT},
            "BadRequest",
            "tool_choice 'required' or a named tool cannot be combined with response_format",
        ),
    ],
)
def test_forms_that_cannot_be_are_refused_in_sglangs_words(fields: Any, kind: str, message: str):
    ((status, body),) = asked("sglang", PARSER, chat(**fields))
    assert (status, body["type"]) == (400, kind)
    assert body["message"].startswith(message)
