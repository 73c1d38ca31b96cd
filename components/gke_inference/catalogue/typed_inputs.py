"""Inputs of a component or of an intent, read into the types that its `TypedDict` declares.

A plain value must have the declared type and be in its range. A value that only the engine knows
(an output) passes where the declaration is a `pulumi.Input`. Settings can be given as an instance
of their class or as a mapping, as programs in other languages send them. Nothing here needs
Pulumi.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeVar,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from gke_inference.settings import Settings

from .input_error import InputError
from .problems import Document, Location, join, shown_value, unknown_field

Shape = TypeVar("Shape")


class InputErrors(ValueError):
    """Inputs that break rules, with every problem."""

    def __init__(self, problems: Iterable[InputError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass
class _Reading:
    """One reading of inputs: how names are spelled, and the problems found."""

    spell: Callable[[str], str]
    problems: list[InputError] = field(default_factory=list[InputError])

    def refuse(self, where: Location, rule: str) -> None:
        self.problems.append(InputError(join(*where), rule))

    def refuse_type(self, where: Location, wanted: str, value: object) -> None:
        self.problems.append(InputError(join(*where), f"must be {wanted}", shown_value(value)))


_Reader = Callable[[Any, Location, _Reading], Any]


def typed_inputs(
    shape: type[Shape], args: object, *, where: Location = (), spell: Callable[[str], str] = str
) -> Shape:
    """Return a copy of the inputs with the declared types. Inputs that are None are left out.

    Args:
        shape: The `TypedDict` or the class of settings that declares the inputs.
        args: The inputs. Whole numbers may be floats.
        where: Location of the inputs, put before each field in messages.
        spell: Spells the name of a field in messages, such as in camelCase.

    Raises:
        InputErrors: A field is unknown or missing, or a value breaks a rule.
    """
    reading = _Reading(spell)
    typed = _reader(shape)(args, where, reading)
    if reading.problems:
        raise InputErrors(reading.problems)
    return cast("Shape", typed)


def document_of(value: Any) -> Any:
    """Return settings, or a structure of them, as plain mappings, lists and scalars.

    Fields that nobody set are left out. A whole float becomes an int: other languages send 4 as
    `4.0`.
    """
    if isinstance(value, Settings):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {key: document_of(item) for key, item in items.items()}
    if isinstance(value, (list, tuple)):
        return [document_of(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@cache
def _reader(shape: type) -> _Reader:
    """Return the reader of a `TypedDict` or of settings, made once."""
    return _fields_of(shape) if is_typeddict(shape) else _settings(shape)


def _fields_of(shape: type) -> _Reader:
    # of a TypedDict, also those of its bases; `pulumi.Input` names a type that only Pulumi knows
    readers = {name: _made(hint) for name, hint in shape.__annotations__.items()}
    required = cast("frozenset[str]", getattr(shape, "__required_keys__", frozenset[str]()))

    def read(value: Any, where: Location, reading: _Reading) -> Any:
        if not isinstance(value, Mapping):
            return reading.refuse_type(where, "a mapping of fields", value)
        given = cast("Mapping[str, Any]", value)
        typed: dict[str, Any] = {}
        for name, item in given.items():
            at = (*where, reading.spell(name))
            if name not in readers:
                known = [reading.spell(other) for other in readers]
                reading.problems.append(
                    unknown_field(join(*at), "is not an input", reading.spell(name), known)
                )
            elif item is not None:
                typed[name] = readers[name](item, at, reading)
        for name in readers:
            if name in required and given.get(name) is None:
                reading.refuse((*where, reading.spell(name)), "is required")
        return typed

    return read


def _made(hint: Any) -> _Reader:
    """Return the reader of a declared type."""
    origin: Any = get_origin(hint)
    inner: tuple[Any, ...] = get_args(hint)
    if origin in (NotRequired, Required):
        return _made(inner[0])
    awaited = [get_args(branch)[0] for branch in inner if get_origin(branch) is Awaitable]
    if awaited:
        return _or_output(_made(awaited[0]))
    if is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, Settings)):
        return _plain_only(_reader(hint))
    branches = [branch for branch in inner if branch is not type(None)]
    if len(branches) == 1 and len(inner) > 1:  # X | None
        return _made(branches[0])
    listed = cast("Any", inner[0] if inner and origin is Annotated else hint)
    of: tuple[Any, ...] = get_args(listed)
    if get_origin(listed) is list and _is_structured(of[0]):
        return _each(_made(of[0]), hint)
    if get_origin(listed) is dict and _is_structured(of[1]):
        return _values(_made(of[1]), hint)
    return _scalar(hint)


def _is_structured(hint: Any) -> bool:
    """Return whether a type has settings or inputs inside, which are read one by one."""
    if is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, Settings)):
        return True
    parts = get_args(hint)
    return any(get_origin(part) is Awaitable or _is_structured(part) for part in parts)


def _or_output(plain: _Reader) -> _Reader:
    def read(value: Any, where: Location, reading: _Reading) -> Any:
        return value if _is_output(value) else plain(value, where, reading)

    return read


def _plain_only(plain: _Reader) -> _Reader:
    def read(value: Any, where: Location, reading: _Reading) -> Any:
        if _is_output(value):
            return reading.refuse(where, "must be known before the deployment, got an output")
        return plain(value, where, reading)

    return read


def _is_output(value: Any) -> bool:
    return isinstance(value, Awaitable) or callable(getattr(value, "apply", None))


def _each(item: _Reader, hint: Any) -> _Reader:
    check = _size(hint)

    def read(value: Any, where: Location, reading: _Reading) -> Any:
        if not isinstance(value, (list, tuple)):
            return reading.refuse_type(where, "a list", value)
        values = cast("list[Any]", value)
        check(len(values) * [None], where, reading)
        return [item(each, (*where, at), reading) for at, each in enumerate(values)]

    return read


def _values(item: _Reader, hint: Any) -> _Reader:
    check = _size(hint)

    def read(value: Any, where: Location, reading: _Reading) -> Any:
        if not isinstance(value, Mapping):
            return reading.refuse_type(where, "a mapping of names to values", value)
        values = cast("Mapping[str, Any]", value)
        check(len(values) * [None], where, reading)
        return {key: item(each, (*where, key), reading) for key, each in values.items()}

    return read


def _size(hint: Any) -> _Reader:
    """Return the check of the number of entries, of a type that is annotated with limits."""
    limits = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    if not limits:
        return lambda _value, _where, _reading: None
    return _scalar(Annotated[list[None], *limits])


def _settings(shape: type) -> _Reader:
    settings = cast("type[Settings]", shape)

    def read(value: Any, where: Location, reading: _Reading) -> Any:
        if isinstance(value, settings):
            return value
        if not isinstance(value, Mapping):
            return reading.refuse_type(where, "a mapping of fields", value)
        try:
            return settings.model_validate_json(json.dumps(document_of(value)))
        except ValidationError as error:
            unknown = f"is not a field of {settings.__name__}"
            document = Document(settings.model_json_schema, unknown, reading.spell)
            reading.problems += document.problems_of(error, where)
        return None

    return read


def _scalar(hint: Any) -> _Reader:
    """Return the reader of a type without settings or inputs inside."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint, config=ConfigDict(strict=True))
    except PydanticSchemaGenerationError:  # a resource, a provider
        return lambda value, _where, _reading: value
    if Any in (hint, *get_args(hint)):  # may contain outputs
        return lambda value, _where, _reading: value
    document = Document(adapter.json_schema)

    def read(value: Any, where: Location, reading: _Reading) -> Any:
        if _is_output(value):
            return reading.refuse(where, "must be known before the deployment, got an output")
        try:
            return adapter.validate_json(json.dumps(document_of(value)))
        except ValidationError as error:
            reading.problems += document.problems_of(error, where)
        except TypeError:  # not what a document can contain
            reading.refuse(where, f"must be a plain value, got a {type(value).__name__}")
        return value

    return read
