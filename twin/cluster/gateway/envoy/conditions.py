"""Conditions in CEL as the syntax trees that Envoy reads."""

from typing import Final

from twin.cluster.gateway.envoy.messages import EnvoyJson
from twin.cluster.gateway.translation.cel import Attribute, Constant, Expression

_OPERATORS: Final = {
    "&&": "_&&_",
    "||": "_||_",
    "!": "!_",
    "==": "_==_",
    "!=": "_!=_",
    "<": "_<_",
    "<=": "_<=_",
    ">": "_>_",
    ">=": "_>=_",
    "+": "_+_",
}
_FIELDS: Final = {"path": "url_path"}  # Google's request.path is Envoy's without the query


def any_of(conditions: tuple[Expression, ...]) -> EnvoyJson:
    """Return the condition that any of several conditions holds."""
    first, *others = (expression_of(condition) for condition in conditions)
    for other in others:
        first = _call("_||_", [first, other])
    return first


def expression_of(expression: Expression) -> EnvoyJson:
    """Return a condition as the syntax tree that Envoy reads (google.api.expr.v1alpha1)."""
    if isinstance(expression, Constant):
        return {"const_expr": _constant(expression.value)}
    if isinstance(expression, Attribute):
        request: EnvoyJson = {"ident_expr": {"name": "request"}}
        field = _FIELDS.get(expression.name, expression.name)
        found: EnvoyJson = {"select_expr": {"operand": request, "field": field}}
        if not expression.header:
            return found
        return _call("_[_]", [found, {"const_expr": {"string_value": expression.header}}])
    arguments = [expression_of(each) for each in expression.arguments]
    if expression.function in _OPERATORS:
        return _call(_OPERATORS[expression.function], arguments)
    if expression.function == "int":
        return _call("int", arguments)
    found = _call(expression.function, arguments[1:])
    found["call_expr"]["target"] = arguments[0]
    return found


def _constant(value: str | int | bool) -> EnvoyJson:
    if isinstance(value, bool):
        return {"bool_value": value}
    return {"int64_value": value} if isinstance(value, int) else {"string_value": value}


def _call(function: str, arguments: list[EnvoyJson]) -> EnvoyJson:
    return {"call_expr": {"function": function, "args": arguments}}
