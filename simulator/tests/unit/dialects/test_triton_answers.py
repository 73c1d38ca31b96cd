"""Calls, and what the simulated Triton refuses, as of its OpenAI front end at v2.70.0."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.tests.unit.dialects.support import BOOK, asked, events
from simulator.tests.unit.dialects.test_triton import MODEL, arguments, chat

__all__ = ["arguments"]
GUIDE = """
parameters: {
  key: "guided_decoding_backend"
  value: {
    string_value: "%s"
  }
}
"""
REQUIRED = {"tools": [BOOK], "tool_choice": "required"}
NAMED = {"tools": [BOOK], "tool_choice": {"type": "function", "function": {"name": "book"}}}


@pytest.fixture
def guided(arguments: list[str]) -> list[str]:
    """A server whose engine follows a schema."""
    return with_guide(arguments, "xgrammar")


def with_guide(arguments: list[str], backend: str) -> list[str]:
    folder = Path(arguments[0].partition("=")[2])
    (folder / "tensorrt_llm" / "config.pbtxt").write_text(GUIDE % backend)
    return arguments


@pytest.mark.parametrize("wanted", [REQUIRED, NAMED])
def test_a_forced_call_has_the_name_of_its_answer(guided: list[str], wanted: Any):
    ((_, body),) = asked("triton", guided, chat(max_tokens=99, **wanted))
    (choice,) = body["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["id"], call["function"]["name"]) == (body["id"], "book")
    assert json.loads(call["function"]["arguments"]) == {"city": "simulated"}
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")


def test_a_streamed_call_repeats_the_name_of_its_tool(guided: list[str]):
    ((_, text),) = asked("triton", guided, chat(max_tokens=99, stream=True, **REQUIRED))
    _role, *parts = [part["choices"][0] for part in events(text)]
    functions = [part["delta"]["tool_calls"][0]["function"] for part in parts]
    assert {each["name"] for each in functions} == {"book"}
    arguments = "".join(each["arguments"] for each in functions)
    assert json.loads(arguments) == {"city": "simulated"}
    assert parts[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("backend", ["", "${guided_decoding_backend}"])
def test_an_engine_that_was_not_built_for_schemas_fails(arguments: list[str], backend: str):
    ((status, body),) = asked("triton", with_guide(arguments, backend), chat(**REQUIRED))
    assert status == 500
    assert "GuidedDecoder is not setup" in body["detail"]


def test_it_reads_no_response_format(arguments: list[str]):
    plain, formed = asked(
        "triton", arguments, chat(), chat(response_format={"type": "json_object"})
    )
    assert formed[1]["choices"] == plain[1]["choices"]


@pytest.mark.parametrize(
    ("fields", "status", "detail"),
    [
        (
            {"tools": [BOOK]},
            400,
            "having tools in the request requires --tool-call-parser to be set",
        ),
        ({"tool_choice": "auto"}, 400, '"auto" tool choice requires --tool-call-parser to be set'),
        (
            {"tool_choice": "required"},
            400,
            '"required" tool choice requires CreateChatCompletionRequest.tools to be provided',
        ),
        (
            {"tool_choice": NAMED["tool_choice"]},
            400,
            "Named tool choice requires CreateChatCompletionRequest.tools to be provided",
        ),
        (
            {"tools": [BOOK], "tool_choice": {"function": {"name": "sell"}}},
            400,
            "Tool 'sell' has not been passed in `tools`.",
        ),
        (
            {
                "tools": [{"type": "function", "function": {"name": "book"}}],
                "tool_choice": "required",
            },
            500,
            "'NoneType' object has no attribute 'model_dump_json'",
        ),
    ],
)
def test_calls_that_cannot_be_are_a_detail(
    guided: list[str], fields: Any, status: int, detail: str
):
    assert asked("triton", guided, chat(**fields)) == [(status, {"detail": detail})]


def test_a_server_with_a_parser_answers_with_text_where_it_may_call(arguments: list[str]):
    flags = [*arguments, "--tool-call-parser=llama3"]
    ((_, body),) = asked("triton", flags, chat(tools=[BOOK]))
    assert body["choices"][0]["message"]["tool_calls"] is None


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        (
            {"best_of": 2},
            "Received best_of=2, but only single choice (best_of=1) is currently supported",
        ),
        ({"logit_bias": {"5": 1}}, "logit bias is not supported"),
        ({"logprobs": 2}, "logprobs are currently available only for the vLLM backend"),
    ],
)
def test_a_completion_has_one_choice_without_probabilities(
    arguments: list[str], fields: Any, detail: str
):
    body = {"model": MODEL, "prompt": "one", **fields}
    assert asked("triton", arguments, ("/v1/completions", body)) == [(400, {"detail": detail})]
