"""Requests and responses of a check."""

from typing import Any

import pytest

from workloads.guardrails.rails import Text, Verdict
from workloads.guardrails.server import BadRequest, answer, parse

MESSAGES = [{"role": "system", "content": "a"}, {"content": "b"}]
ASKED = {"phase": "input", "model": "m", "team": "t", "messages": MESSAGES}


def test_each_message_is_a_text_with_its_role():
    asked = parse(ASKED, ("input", "output"))
    assert asked.texts == [Text("a", "system", "m", "t"), Text("b", "user", "m", "t")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phase": "both"}, "phase: must be one of input, output, got 'both'"),
        ({"phase": "output"}, "phase: must be one with rails (input), got 'output'"),
        ({"text": "x"}, "text, messages: one of them is required"),
        ({"messages": "x"}, "messages: must be a list"),
        ({"messages": ["x"]}, "messages[0]: must be an object with content"),
        ({"messages": [{"content": 1}]}, "content: must be a string, got int"),
        ({"team": None}, "team: must be a string, got NoneType"),
    ],
)
def test_what_is_no_check_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadRequest) as refused:
        parse({**ASKED, **changes}, ("input",))
    assert str(refused.value) == message


def test_verdicts_become_one_answer():
    asked = parse(ASKED, ("input",))
    plain, masked = Verdict("allow", "a"), Verdict("replace", "<EMAIL>")
    assert answer(asked, [plain, Verdict("allow", "b")]) == {"action": "allow"}
    assert answer(asked, [plain, masked]) == {
        "action": "replace",
        "messages": [
            {"role": "system", "content": "a"},
            {"role": "user", "content": "<EMAIL>"},
        ],
    }
    assert answer(asked, [masked, Verdict("block", "", "no secrets", "No.")]) == {
        "action": "block",
        "rail": "no secrets",
        "message": "No.",
    }
    one = parse({"phase": "input", "text": "a@b.de"}, ("input",))
    assert answer(one, [masked]) == {"action": "replace", "text": "<EMAIL>"}
