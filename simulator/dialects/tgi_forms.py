"""What TGI 3.3.7 requires of a response: a document of a grammar, or a call of a tool.

Read from its source at v3.3.7: `router/src/lib.rs`, `chat.rs`, `infer/tool_grammar.rs` and
`validation.rs`.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

from simulator.dialects.forms import Json, call_in, filled, function_named, is_document
from simulator.dialects.tgi_fields import form_error
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.structured import Form, written

_KINDS = ("json", "json_object", "regex", "json_schema")


@dataclass(frozen=True)
class Wanted:
    """The required form of a response."""

    form: Form | None = None
    is_optional: bool = False
    """Whether the model may call a tool, and answers with text here."""
    problem: str = ""
    """What `validation.rs` finds wrong with a grammar."""


TEXT = Wanted()
"""Any text."""
NO_CALL = Wanted(Form('{"function": {"_name": "no_tool"}}'))
"""What the model writes if it may call a tool and calls none: TGI then asks it again for text."""


def wanted_of(body: Json) -> Wanted:
    """Return the required form of a chat's response.

    Raises:
        ApiError: 422 if TGI rejects the request, 400 if the schema cannot be filled here.
    """
    tools, choice = _tools(body), _choice(body.get("tool_choice"))
    grammar = body.get("response_format")
    if grammar is not None and tools is not None:
        raise tool_error("Grammar and tools are mutually exclusive")
    if grammar is not None:
        return grammar_of(grammar, "response_format")
    if not tools or choice == "none":
        if tools is not None and choice not in ("auto", "none", "required"):
            raise tool_error(f"Tool with name {choice} not found")
        return Wanted(is_optional=tools is not None and choice == "auto")
    if choice == "auto":
        return Wanted(is_optional=True)
    function = tools[0]["function"] if choice == "required" else function_named(tools, choice)
    if function is None:
        raise tool_error(f"Tool with name {choice} not found")
    return Wanted(_call(function))


def _call(function: Json) -> Form:
    """Return a call: its arguments follow the name in one object, which ends the text."""
    name = str(function["name"])
    schema: Any = function.get("parameters", function.get("arguments"))
    inner = filled(cast(Json, schema) if isinstance(schema, dict) else None)
    before = f'{{"function": {{"_name": "{name}"'
    return call_in(before + ("," if inner != "{}" else ""), _rest(inner), "}", name)


def _rest(arguments: str) -> str:
    """Return an object without its first brace."""
    return "}" if arguments == "{}" else f" {arguments[1:]}"


def grammar_of(grammar: Any, where: str) -> Wanted:
    """Return the form of a grammar (`GrammarType`).

    Args:
        grammar: value of the field.
        where: path of the field.

    Raises:
        ApiError: as `wanted_of`.
    """
    if not isinstance(grammar, dict):
        raise form_error(f"{where}: invalid type, expected adjacently tagged enum GrammarType")
    given = cast(Json, grammar)
    for name in ("type", "value"):
        if name not in given:
            raise form_error(f"{where}: missing field `{name}`")
        if name == "type" and given["type"] not in _KINDS:
            known = ", ".join(f"`{kind}`" for kind in _KINDS)
            said = f"unknown variant `{given['type']}`, expected one of {known}"
            raise form_error(f"{where}: {said}")
    schema: Any = given["value"]
    if given["type"] == "regex":
        said = "a regex as a grammar is not available on a simulated engine."
        raise ApiError(400, said, param=where, kind="not simulated")
    if given["type"] == "json_schema":
        if not isinstance(schema, dict) or "schema" not in schema:
            raise form_error(f"{where}: missing field `schema`")
        schema = cast(Json, schema)["schema"]
    elif isinstance(schema, str):
        if not is_document(schema):
            return Wanted(problem="grammar is not valid: the text is not JSON")
        schema = json.loads(schema)
    if not isinstance(schema, dict):
        return Wanted(problem="grammar is not supported")
    if "properties" not in schema:
        said = "Grammar must have a 'properties' field"
        return Wanted(problem=f"grammar is not valid: {said}")
    return Wanted(Form(written(cast(Json, schema))))


def _tools(body: Json) -> list[Json] | None:
    """Return the tools of a request, after serde's checks; None if it has none."""
    given: list[Any] | None = body.get("tools")
    for at, tool in enumerate(given or []):
        where = f"tools[{at}]"
        if not isinstance(tool, dict):
            raise form_error(f"{where}: invalid type, expected struct Tool")
        for name in ("type", "function"):
            if name not in tool:
                raise form_error(f"{where}: missing field `{name}`")
        function: Any = cast(Json, tool)["function"]
        if not isinstance(function, dict):
            raise form_error(f"{where}.function: invalid type, expected struct FunctionDefinition")
        if "name" not in function:
            raise form_error(f"{where}.function: missing field `name`")
        if "arguments" not in function and "parameters" not in function:
            raise form_error(f"{where}.function: missing field `arguments`")
    return given


def _choice(choice: Any) -> str:
    """Return `none`, `auto`, `required` or the name of a function, which can be a plain text."""
    if choice is None:
        return "auto"
    if isinstance(choice, str):
        return choice
    named: Any = cast(Json, choice).get("function") if isinstance(choice, dict) else None
    if isinstance(named, dict) and isinstance(cast(Json, named).get("name"), str):
        return str(cast(Json, named)["name"])
    said = "data did not match any variant of untagged enum ToolTypeDeserializer"
    raise form_error(f"tool_choice: {said}")


def tool_error(said: str) -> ApiError:
    """Return the response to tools that cannot be used."""
    return ApiError(422, f"Tool error: {said}", kind="tool_error")


def call_id(messages: list[Any]) -> str:
    """Return the ID of a call: one more than the largest in the messages (`next_tool_call_id`)."""
    numbers = [
        int(str(call["id"])) for each in messages for call in _calls(each) if _is_number(call)
    ]
    return str(max(numbers, default=-1) + 1)


def _calls(message: Json) -> list[Json]:
    """Return the calls of a message; serde takes one with text whatever its calls are."""
    found: Any = message.get("tool_calls")
    return (
        [call for call in cast(list[Any], found) if isinstance(call, dict)]
        if isinstance(found, list)
        else []
    )


def _is_number(call: Json) -> bool:
    text = str(call.get("id"))
    return text.isascii() and text.isdigit()


def called(form: Form, text: str, name: str) -> Json:
    """Return the message of a response that calls a tool.

    Args:
        form: required form.
        text: response.
        name: ID of the call; a response that is not streamed always has "0".

    Raises:
        ApiError: 422 if the response ended before the call was complete.
    """
    if not is_document(text):
        raise tool_error(f"Failed to parse generated text: EOF while parsing {json.dumps(text)}")
    arguments: Json = json.loads(text)["function"]
    del arguments["_name"]
    written_ = json.dumps(arguments, separators=(",", ":"))
    function = {"description": None, "name": form.tool, "arguments": written_}
    call = {"id": name, "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call]}
