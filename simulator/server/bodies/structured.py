"""Structured responses: a document that matches a JSON schema, or a tool call.

The document is valid but meaningless: it has the required fields of the schema, each with the
smallest allowed value. A schema for which this is not possible is rejected with an error.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, cast

from simulator.server.bodies.errors import ApiError

Json = dict[str, Any]
_DEEPEST = 32
_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "email": "simulated@example.com",
    "ipv4": "192.0.2.1",
    "time": "00:00:00Z",
    "uri": "https://example.com/simulated",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_WORD = "simulated"


@dataclass(frozen=True)
class Form:
    """The required form of a response."""

    text: str
    """The whole response, or the arguments of the call."""
    tool: str | None = None
    """Name of the called tool."""
    is_required: bool = False
    """Whether the request allowed any tool: vLLM ends such a response with `tool_calls`, and that
    of a named tool with `stop`."""
    span: tuple[int, int] | None = None
    """Where the arguments of the call begin and end in the text, if it has more than them."""


def form_of(body: Json, *, has_auto_tools: bool) -> Form | None:
    """Return the requested form of a chat's response; None for text.

    Args:
        body: validated body of the request (`simulator.server.bodies.fields`).
        has_auto_tools: whether the server has `--enable-auto-tool-choice`.

    Raises:
        ApiError: 400 if vLLM rejects the request, or if the schema cannot be filled here.
    """
    called = _tool(body, has_auto_tools=has_auto_tools)
    if called is not None:
        function, is_required = called
        filled = written(function.get("parameters") or {"type": "object"})
        return Form(filled, str(function["name"]), is_required)
    wanted: Json = body.get("response_format") or {}
    kind = wanted.get("type")
    if kind == "json_object":
        return Form("{}")
    if kind == "json_schema":
        schema: Json = wanted.get("json_schema") or {}
        return Form(written(schema.get("schema") or {}))
    if kind not in (None, "text"):
        said = f"response_format {kind!r} is not available on a simulated engine."
        raise ApiError(400, said, param="response_format")
    return None


def _tool(body: Json, *, has_auto_tools: bool) -> tuple[Json, bool] | None:
    """Return the function to call, and whether any was allowed; None if text is allowed."""
    tools: list[Json] = body.get("tools") or []
    choice = body.get("tool_choice")
    if choice is None:
        choice = "auto" if tools else "none"
    if choice == "none":
        return None
    if not tools:
        raise ApiError(400, "When using `tool_choice`, `tools` must be set.", param="tool_choice")
    functions = [each["function"] for each in tools]
    if choice == "auto":
        if has_auto_tools:
            return _chosen(functions, body)
        raise ApiError(
            400,
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be '
            "set",
        )
    if choice == "required":
        return functions[0], True
    name = choice["function"]["name"]
    for function in functions:
        if function["name"] == name:
            return function, False
    raise ApiError(
        400,
        "The tool specified in `tool_choice` does not match any of the specified `tools`",
        param="tool_choice",
    )


def _chosen(functions: list[Json], body: Json) -> tuple[Json, bool] | None:
    """Return the function that the engine chooses to call; None if it answers with text.

    A question of the user leads to one call of the first function whose arguments can be filled,
    and its result to text, so that the loop of an agent has both and ends.
    """
    messages: list[Json] = body.get("messages") or []
    if not messages or messages[-1].get("role") != "user":
        return None
    for function in functions:
        try:
            written(function.get("parameters") or {"type": "object"})
        except ApiError:
            continue
        return function, True
    return None


def written(schema: Json) -> str:
    """Return a document for a schema as text.

    Raises:
        ApiError: 400 if the schema cannot be filled here.
    """
    try:
        return json.dumps(_filled(schema, schema, 0))
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        # any rule of a schema can have any type; failures below mean a wrong type
        raise _unfillable("a rule that is not as JSON Schema has it") from error


def _filled(schema: Any, root: Json, depth: int) -> Any:
    if depth > _DEEPEST or schema is False:
        raise _unfillable("a schema that nothing fits, or one without an end")
    rules = _resolved({} if schema is True else schema, root, depth)
    if "const" in rules or "enum" in rules:
        return rules["const"] if "const" in rules else rules["enum"][0]
    for name in ("anyOf", "oneOf"):
        if name in rules:
            rest = {key: value for key, value in rules.items() if key != name}
            return _filled({**rest, **_resolved(rules[name][0], root, depth)}, root, depth + 1)
    kind: Any = rules.get("type")
    if isinstance(kind, list):
        kind = cast(list[Any], kind)[0]
    if kind is None:
        kind = "array" if "items" in rules else "object"
    if kind == "object":
        return _object(rules, root, depth)
    return _list(rules, root, depth) if kind == "array" else _plain(str(kind), rules)


def _object(rules: Json, root: Json, depth: int) -> Json:
    fields: Json = rules.get("properties", {})
    wanted: list[str] = rules.get("required", [])
    return {name: _filled(fields.get(name, {}), root, depth + 1) for name in wanted}


def _resolved(rules: Json, root: Json, depth: int) -> Json:
    """Return rules with resolved references, and with all of `allOf`."""
    rules = dict(rules)
    while "$ref" in rules:
        found = _referred(str(rules["$ref"]), root)
        rules = {**found, **{key: value for key, value in rules.items() if key != "$ref"}}
        depth += 1
        if depth > _DEEPEST:
            raise _unfillable("a schema without an end")
    for part in rules.pop("allOf", []) if "allOf" in rules else ():
        more = _resolved({} if part is True else dict(part), root, depth + 1)
        rules["properties"] = {**rules.get("properties", {}), **more.get("properties", {})}
        rules["required"] = [*rules.get("required", []), *more.get("required", [])]
        rules = {**more, **rules}
    return rules


def _referred(where: str, root: Json) -> Json:
    found: Any = root
    for part in where.removeprefix("#").strip("/").split("/"):
        if part and (not isinstance(found, dict) or part not in found):
            raise _unfillable(f"a $ref to what is not there ({where})")
        found = cast(Json, found)[part] if part else cast(Any, found)
    return {} if found is True else found


def _list(rules: Json, root: Json, depth: int) -> list[Any]:
    first: list[Any] = rules.get("prefixItems", [])
    least = max(int(rules.get("minItems", 0)), 0)
    if rules.get("uniqueItems") and least > 1:
        raise _unfillable("uniqueItems")
    made = [_filled(item, root, depth + 1) for item in first[:least]]
    return made + [
        _filled(rules.get("items", {}), root, depth + 1) for _ in range(least - len(made))
    ]


def _plain(kind: str, rules: Json) -> Any:
    if kind == "string":
        if "pattern" in rules:
            raise _unfillable("pattern")
        value = _FORMATS.get(str(rules.get("format")), _WORD)
        value = value.ljust(int(rules.get("minLength", 0)), ".")
        return value[: int(rules["maxLength"])] if "maxLength" in rules else value
    if kind in ("integer", "number"):
        return _number(kind, rules)
    return False if kind == "boolean" else None


def _number(kind: str, rules: Json) -> float:
    step = rules.get("multipleOf", 1 if kind == "integer" else 0)
    low = rules.get("minimum", rules.get("exclusiveMinimum"))
    high = rules.get("maximum", rules.get("exclusiveMaximum"))
    value: float = 0 if low is None or low < 0 else low
    if high is not None and value > high:
        value = high
    if step:
        value = math.ceil(value / step) * step
    gap = step or 0.5
    if "exclusiveMinimum" in rules and value <= rules["exclusiveMinimum"]:
        value += gap
    if high is not None and (value > high or value == rules.get("exclusiveMaximum")):
        value -= gap
    return int(value) if kind == "integer" else value


def _unfillable(what: str) -> ApiError:
    said = f"{what} in a schema is not available on a simulated engine."
    return ApiError(400, said, param="response_format")
