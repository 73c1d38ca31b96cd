"""Log probabilities and repeated prompts in the responses of the simulated engine."""

import json
import math
from typing import Any

import pytest

from simulator.tests.unit.engine.support import deployment
from simulator.tests.unit.engine.test_api import CHAT, post

ASKED = {"prompt": "Tell me more", "max_tokens": 4}


def complete(**more: Any) -> Any:
    return post(deployment(), "/v1/completions", {**ASKED, **more})[1]


def test_each_token_of_a_completion_has_its_offset_and_its_probability_among_others():
    (choice,) = complete(logprobs=3)["choices"]
    found = choice["logprobs"]
    assert "".join(found["tokens"]) == choice["text"]
    starts = [sum(map(len, found["tokens"][:at])) for at in range(4)]
    assert found["text_offset"] == starts
    for token, value, top in zip(
        found["tokens"], found["token_logprobs"], found["top_logprobs"], strict=True
    ):
        assert len(top) == 3
        assert top[token] == value == max(top.values())
        assert sum(map(math.exp, top.values())) < 1


def test_without_alternatives_there_is_the_token_alone():
    (choice,) = complete(logprobs=0)["choices"]
    assert [list(top) for top in choice["logprobs"]["top_logprobs"]] == [
        [token] for token in choice["logprobs"]["tokens"]
    ]


def test_a_repeated_prompt_comes_first_and_its_first_token_follows_nothing():
    (choice,) = complete(logprobs=1, echo=True)["choices"]
    plain = complete()["choices"][0]["text"]
    assert choice["text"] == "Tell me more" + plain
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert None not in choice["logprobs"]["token_logprobs"][1:]
    assert choice["prompt_logprobs"][0] is None


def test_the_prompt_can_be_judged_without_an_answer():
    body = complete(max_tokens=0, echo=True, logprobs=1)
    assert body["choices"][0]["text"] == "Tell me more"
    assert "".join(body["choices"][0]["logprobs"]["tokens"]) == "Tell me more"
    assert body["usage"]["completion_tokens"] == 1  # vLLM computes one


def test_the_tokens_of_a_prompt_have_ranks():
    (choice,) = complete(prompt_logprobs=2)["choices"]
    first, *others = choice["prompt_logprobs"]
    assert first is None
    assert all([entry["rank"] for entry in each.values()] == [1, 2] for each in others)


def test_a_chat_has_as_many_alternatives_as_it_asked_for():
    asked = {**CHAT, "max_tokens": 4, "logprobs": True}
    for count in (0, 2):
        body = post(deployment(), "/v1/chat/completions", {**asked, "top_logprobs": count})[1]
        found = body["choices"][0]["logprobs"]["content"]
        assert "".join(each["token"] for each in found) == body["choices"][0]["message"]["content"]
        assert [len(each["top_logprobs"]) for each in found] == [count] * 4
        assert all(bytes(each["bytes"]).decode() == each["token"] for each in found)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"logprobs": 21}, "sample logprobs of 21, which is greater than max allowed: 20"),
        ({"logprobs": -1}, "sample logprobs of 128000, which is greater"),
        ({"logprobs": -2}, "`logprobs` must be a positive value or -1."),
        ({"prompt_logprobs": 21}, "prompt logprobs of 21"),
        ({"prompt_logprobs": 1, "stream": True}, "not available when `stream=True`"),
    ],
)
def test_more_probabilities_than_the_server_allows_are_refused(more: Any, problem: str):
    assert problem in complete(**more)["error"]["message"]


def test_a_stream_can_ask_for_no_probabilities_of_its_prompt():
    asked = {**ASKED, "stream": True}
    status, events = post(deployment(), "/v1/completions", {**asked, "prompt_logprobs": 0})
    plain = post(deployment(), "/v1/completions", asked)[1]
    assert status == 200
    assert said(events) == said(plain) != ""


def said(events: str) -> str:
    lines = [
        line.removeprefix("data: ") for line in events.split("\n\n") if line.startswith("data")
    ]
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines if line != "[DONE]")


def test_a_server_can_allow_more():
    made = deployment("--max-logprobs", "30")
    body = post(made, "/v1/completions", {**ASKED, "logprobs": 25})[1]
    assert len(body["choices"][0]["logprobs"]["top_logprobs"][0]) == 25
