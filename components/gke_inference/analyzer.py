"""Reads the schema of the plugin from the inputs' types, with their ranges and defaults.

Pulumi's analyzer knows plain types only. This one also reads ranges (`Annotated`), settings
(pydantic models, shared with stacks) and enumerations of words, and adds ranges, words and defaults
to the descriptions: a schema of Pulumi has no place for a range.
"""

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pulumi.provider.experimental.analyzer import Analyzer, PropertyDefinition, is_not_required
from pulumi.provider.experimental.util import camel_case
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from .catalogue.problems import range_of
from .settings import Settings, Word

_SCALARS = {bool, int, float, str}
"""Types of a plain value, which is any value in Pulumi's schema."""
_ENDED = re.compile(r"[.:!?]$")


class SettingsAnalyzer(Analyzer):
    """Pulumi's analyzer, for inputs with ranges and settings inside."""

    def analyze_type(
        self, typ: type, *, is_component_output: bool
    ) -> tuple[dict[str, PropertyDefinition], dict[str, str]]:
        """Return the properties of a type, and the Python name of each."""
        fields = _fields(typ)
        if fields is None:
            return super().analyze_type(typ, is_component_output=is_component_output)
        properties = {camel_case(name): self._field(typ, name, fields[name]) for name in fields}
        return properties, {camel_case(name): name for name in fields}

    def get_docstring(self, typ: type, name: str) -> str | None:
        """Return the description of a property, inherited ones of settings as well."""
        fields = _fields(typ)
        return super().get_docstring(typ, name) if fields is None else fields[name].description

    def _field(self, typ: type, name: str, field: FieldInfo) -> PropertyDefinition:
        annotation: Any = field.annotation
        if field.metadata:
            annotation = Annotated[annotation, *field.metadata]
        found = self.analyze_property(
            annotation,
            typ,
            name,
            can_be_plain=True,
            is_component_output=False,
            optional=not field.is_required(),
        )
        default: Any = None if field.is_required() else field.get_default()
        if isinstance(default, str | int | float):
            shown = str(default).lower() if isinstance(default, bool) else f"`{default}`"
            found.description = _sentences(found.description, f"Default: {shown}.")
        return found

    def analyze_property(
        self,
        arg: Any,
        typ: type,
        name: str,
        *,
        can_be_plain: bool,
        is_component_output: bool,
        optional: bool | None = None,
    ) -> PropertyDefinition:
        """Return the definition of one annotation, its range in the description."""

        def inner(plain: Any, *, is_optional: bool | None = optional) -> PropertyDefinition:
            return self.analyze_property(
                plain,
                typ,
                name,
                can_be_plain=can_be_plain,
                is_component_output=is_component_output,
                optional=is_optional,
            )

        origin: Any = get_origin(arg)
        parts = get_args(arg)
        if is_not_required(arg) and get_origin(parts[0]) is Annotated:
            return inner(parts[0], is_optional=True)
        if origin is Annotated:
            found = inner(parts[0])
            schema = _schema_of(arg)
            if words := schema.get("enum"):
                return _one_of(found, words)
            if allowed := range_of(schema):
                found.description = _sentences(found.description, f"Range: {allowed}.")
            return found
        if origin is Literal:
            return _one_of(inner(type(parts[0])), parts)
        if origin is tuple:
            return inner(list[parts[0]])
        if origin is dict and get_origin(parts[0]) is Annotated:
            return inner(dict[str, parts[1]])
        if origin is Union or type(arg).__name__ == "UnionType":
            branches = [branch for branch in parts if branch is not NoneType]
            if len(branches) == 1 and len(parts) > 1:
                return inner(branches[0], is_optional=True)
            if set(branches) <= _SCALARS:
                return inner(Any)
        if isinstance(arg, type) and issubclass(arg, Word):
            return _one_of(inner(str), [str(word.value) for word in arg])
        return super().analyze_property(
            cast("type", arg),
            typ,
            name,
            can_be_plain=can_be_plain,
            is_component_output=is_component_output,
            optional=optional,
        )


def _fields(typ: type) -> Mapping[str, FieldInfo] | None:
    """Return the fields of settings, or None for another type."""
    return typ.model_fields if issubclass(typ, Settings) else None


def _schema_of(annotated: Any) -> dict[str, Any]:
    """Return the JSON schema of an annotated scalar, or of the only other branch than null."""
    if get_origin(get_args(annotated)[0]) is not None and not _is_nullable(annotated):
        return {}
    schema = TypeAdapter(annotated).json_schema()
    branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    return branches[0] if branches else schema


def _is_nullable(annotated: Any) -> bool:
    return NoneType in get_args(get_args(annotated)[0])


def _one_of(found: PropertyDefinition, values: Iterable[object]) -> PropertyDefinition:
    words = ", ".join(f"`{value}`" for value in values)
    found.description = _sentences(found.description, f"One of {words}.")
    return found


def _sentences(text: str | None, last: str) -> str:
    """Return a description with another sentence."""
    if not text:
        return last
    first = text.rstrip()
    return f"{first} {last}" if _ENDED.search(first) else f"{first}. {last}"
