"""Calls of tools inside the text of a response, as SGLang and TGI make the model write them."""

from collections.abc import Mapping
from typing import Any

from simulator.server.bodies.structured import Form, written

Json = dict[str, Any]


def function_named(tools: list[Json], name: str) -> Json | None:
    """Return the function of a request's tools with a name, or None."""
    functions = (tool["function"] for tool in tools)
    return next((each for each in functions if each["name"] == name), None)


def filled(schema: Mapping[str, Any] | None) -> str:
    """Return arguments for the parameters of a function.

    Raises:
        ApiError: 400 if the schema cannot be filled here.
    """
    return written(dict(schema or {"type": "object"}))


def call_in(before: str, arguments: str, after: str, tool: str) -> Form:
    """Return a form whose text has the arguments of a call somewhere inside."""
    start = len(before)
    return Form(before + arguments + after, tool, span=(start, start + len(arguments)))


class CallText:
    """Reader of a streamed text that contains a call.

    Args:
        form: form of the text.
    """

    def __init__(self, form: Form) -> None:
        self._begin, self._end = form.span or (0, len(form.text))
        self._read = 0
        self.is_named = False
        """Whether the text so far names the called tool."""

    def arguments(self, part: str) -> str:
        """Return the part of more text that belongs to the arguments."""
        start = self._read
        self._read += len(part)
        self.is_named = self._read >= self._begin
        return part[max(0, self._begin - start) : max(0, self._end - start)]
