"""Stacks whose numbers are at one end of their ranges, as far as the rules of a stack let them."""

import copy
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.reading.load import parse
from infra.stack import Platform
from infra.stack.problems import StackError

AREAS = (
    "backends", "batches", "clients", "guardrails", "models", "optimization", "personal_images",
    "pipelines", "streams",
)  # fmt: skip
"""Keys of a stack whose settings reach programs in containers."""
_OTHERS = ("autoscaling", "replicas", "size")
"""Keys of a model that decide about its objects, not about its programs."""
_STEP = 0.01
End = Literal["least", "most"]


@dataclass(frozen=True)
class Number:
    """A numeric setting of a stack, and its range."""

    path: tuple[str | int, ...]
    least: float
    most: float

    @property
    def text(self) -> str:
        """Path as in messages."""
        return ".".join(map(str, self.path))


def _number(bound: Any) -> float:
    """Return a bound, which by its type can also be what is no number."""
    return bound


def range_of(field: FieldInfo) -> tuple[float, float] | None:
    """Return the smallest and the largest number that a field takes, in steps of 0.01."""
    least = most = None
    for rule in _rules(field.annotation, *field.metadata):
        match rule:
            case Ge():
                least = _number(rule.ge)
            case Gt():
                least = _number(rule.gt) + _STEP
            case Le():
                most = _number(rule.le)
            case Lt():
                most = _number(rule.lt) - _STEP
            case _:
                pass
    return None if least is None or most is None else (least, most)


def _rules(annotation: Any, *rules: Any) -> Iterator[Any]:
    """Yield the rules of a type that may be optional, also those of a type with a name."""
    for rule in rules:
        yield from rule.metadata if isinstance(rule, FieldInfo) else (rule,)
    for part in typing.get_args(annotation):
        if typing.get_origin(part) is typing.Annotated:
            inner, *named = typing.get_args(part)
            yield from _rules(inner, *named)


def numbers(kind: Any, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Number]:
    """Yield the numbers of a part of a stack, also those that it leaves to their defaults."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if _is_model(kind) and isinstance(value, dict):
        for name, field in kind.model_fields.items():
            if (not path and name not in AREAS) or (path[:1] == ("models",) and name in _OTHERS):
                continue
            found = range_of(field)
            if found is not None:
                yield Number((*path, name), *found)
            elif name in value or _is_model(field.default_factory or type(field.default)):
                yield from numbers(field.annotation, value.get(name, {}), (*path, name))
    elif origin is dict and isinstance(value, dict):
        for name, each in value.items():
            yield from numbers(inner[1], each, (*path, name))
    elif origin is tuple and isinstance(value, list):
        for at, each in enumerate(value):
            yield from numbers(inner[0], each, (*path, at))
    elif origin in (typing.Union, types.UnionType):
        for each in inner:
            yield from numbers(each, value, path)
    elif origin is typing.Annotated:
        yield from numbers(inner[0], value, path)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def at_bounds(document: dict[str, Any], end: End) -> tuple[Platform, set[str]]:
    """Return a stack with its numbers at one end, and the paths of those that are.

    What breaks a rule between settings keeps its value: the stack refuses it as well.
    """
    left = list(dict.fromkeys(numbers(Platform, document)))
    while True:
        made = _edited(document, left, end)
        if isinstance(made, Platform):
            return made, {each.text for each in left}
        kept = [each for each in left if each.text not in made]
        left = kept if len(kept) < len(left) else _without_one(document, left, end, len(made))


def _without_one(
    document: dict[str, Any], left: list[Number], end: End, problems: int
) -> list[Number]:
    """Return the numbers without one that a rule refuses in the name of another setting."""
    for out in left:
        kept = [each for each in left if each != out]
        made = _edited(document, kept, end)
        if isinstance(made, Platform) or len(made) < problems:
            return kept
    raise AssertionError("refused for more than one number")


def _edited(document: dict[str, Any], left: list[Number], end: End) -> Platform | set[str]:
    """Return a stack with numbers at one end, or the paths that a rule refuses."""
    edited = copy.deepcopy(document)
    for each in left:
        _put(edited, each, getattr(each, end))
    try:
        return parse(json.dumps(edited))
    except StackError as error:
        return {problem.path for problem in error.problems}


def _put(document: Any, number: Number, value: float) -> None:
    for name in number.path[:-1]:
        document = document.setdefault(name, {}) if isinstance(document, dict) else document[name]
    document[number.path[-1]] = value
