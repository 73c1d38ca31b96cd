"""Quotes in error messages: 'x' around values and fields, backticks around commands."""

import ast
import re
from collections.abc import Iterator

from twin.host.paths import REPOSITORY

MEMBERS = ["bench", "components", "infra", "planner", "policies", "scripts", "workloads"]
ERRORS = re.compile(r"(Errors?|Failure|Missing|Refused)$")
COMMAND = re.compile(r"`(gke-inference|git|kubectl|pulumi|up|vllm)\b[^`]*`|`\w+: \{.*\}`")


def text_of(message: ast.expr) -> str:
    """Return a message with `{}` for each value in it."""
    if isinstance(message, ast.Constant):
        return message.value if isinstance(message.value, str) else ""
    if isinstance(message, ast.JoinedStr):
        return "".join(text_of(each) or "{}" for each in message.values)
    return ""


def name_of(called: ast.expr) -> str:
    """Return the last name of what is called, or an empty text, as for the result of a call."""
    return getattr(called, "attr", getattr(called, "id", ""))


def messages() -> Iterator[tuple[str, str]]:
    """Yield (place, text) of each message that an error is made with."""
    for member in MEMBERS:
        for file in sorted((REPOSITORY / member).rglob("*.py")):
            if "tests" in file.parts or "vendor" in file.parts:
                continue
            for call in ast.walk(ast.parse(file.read_text())):
                if isinstance(call, ast.Call) and ERRORS.search(name_of(call.func)):
                    for argument in call.args:
                        yield f"{file.relative_to(REPOSITORY)}:{call.lineno}", text_of(argument)


def test_messages_have_single_quotes_around_values_and_backticks_around_commands_only():
    found = list(messages())
    assert len(found) > 1000
    assert [each for each in found if re.search('["`]', COMMAND.sub("", each[1]))] == []
