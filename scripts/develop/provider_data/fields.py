"""Schemas of Google's provider as the fields of the constraint data."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scripts.develop.provider_data.golang import (
    Call,
    Composite,
    GoError,
    Name,
    Package,
    expression,
    returned,
)

Facts = dict[str, Any]
_TYPES = {
    "schema.TypeString": "string",
    "schema.TypeInt": "int",
    "schema.TypeFloat": "float",
    "schema.TypeBool": "bool",
    "schema.TypeList": "list",
    "schema.TypeSet": "set",
    "schema.TypeMap": "map",
}
_FLAGS = {
    "Computed": "computed",
    "ForceNew": "force_new",
    "Optional": "optional",
    "Required": "required",
    "Sensitive": "sensitive",
    "WriteOnly": "write_only",
}
_NUMBERS = {"MaxItems": "max_items", "MinItems": "min_items"}
_PATHS = {
    "AtLeastOneOf": "at_least_one_of",
    "ConflictsWith": "conflicts_with",
    "ExactlyOneOf": "exactly_one_of",
    "RequiredWith": "required_with",
}
_RFC1035 = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
_REGEXES = {
    "ValidateWorkloadIdentityPoolId": "^[0-9a-z-]+$",
    "ValidateWorkloadIdentityPoolProviderId": "^[0-9a-z-]+$",
    "labelKeyValidator": "^[a-z0-9_-]{1,63}$",
    "verify.ValidateGCEName": "^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$",
    "verify.ValidateIAMCustomRoleID": "^[a-zA-Z0-9_\\.]{3,64}$",
    "verify.ValidateRFC1035Name": _RFC1035,
}
"""Patterns in the bodies of validation functions."""
_NAME_OF_LENGTH = "verify.ValidateRFC1035Name"
_BOUNDS = {
    "ValidateWorkloadIdentityPoolId": (4, 32),
    "ValidateWorkloadIdentityPoolProviderId": (4, 32),
}
"""Shortest and longest text that they accept."""
_INDEX = re.compile(r"\.0(?=\.|$)")


@dataclass(frozen=True)
class Source:
    """The packages of the provider that a resource's schema is made of."""

    own: Package
    others: dict[str, Package]
    """Packages by the names under which they are imported."""

    def value(self, found: Any) -> Any:
        """Return an expression with its name or call replaced by what it stands for."""
        if isinstance(found, Call) and found.name.endswith("MergeSchemas"):
            return self._merged(found)
        if isinstance(found, Call) and found.name.endswith("ResourceIamMember"):
            return self._iam_member(found)
        if not isinstance(found, Name | Call):
            return found
        text = found.text if isinstance(found, Name) else found.name
        package, _, name = text.rpartition(".")
        place = self.own if not package else self.others.get(package, Package())
        known = place.values if isinstance(found, Name) else place.functions
        if name not in known:
            return found
        tokens = known[name]
        within = self if not package else Source(place, self.others)
        return within.value(expression(tokens) if isinstance(found, Name) else returned(tokens))

    def _merged(self, call: Call) -> Composite:
        """Return what `tpgresource.MergeSchemas` makes of schemas."""
        items: dict[str, tuple[Any, Any]] = {}
        for each in map(self.value, call.arguments):
            if not isinstance(each, Composite):
                raise GoError("a merged schema is not a literal")
            items |= {str(key): (key, value) for key, value in each.items}
        return Composite("map[string]*schema.Schema", tuple(items.values()))

    def _iam_member(self, call: Call) -> Composite:
        """Return the resource that `tpgiamresource.ResourceIamMember` makes."""
        base = Name("tpgiamresource.IamMemberBaseSchema")
        schema = self.value(Call("MergeSchemas", (base, call.arguments[0])))
        return Composite("schema.Resource", ((Name("Schema"), schema),))


def fields(source: Source, schema: Any, above: str = "") -> Iterator[tuple[str, Facts]]:
    """Yield the path and the facts of each field of a schema.

    Args:
        source: where names are looked up.
        schema: an expression of type `map[string]*schema.Schema`.
        above: path of the block with the schema.

    Raises:
        GoError: The schema is not a literal.
    """
    found = source.value(schema)
    if not isinstance(found, Composite):
        raise GoError(f"{above or 'the schema'} is not a literal: {found}")
    for key, value in found.items:
        name = source.value(key)
        path = f"{above}.{name}".lstrip(".")
        node = source.value(value)
        if not isinstance(name, str) or not isinstance(node, Composite):
            raise GoError(f"{path} is not a literal")
        yield path, facts(source, node)
        element = source.value(node.get("Elem"))
        if isinstance(element, Composite) and element.type == "schema.Resource":
            yield from fields(source, element.get("Schema"), path)


def facts(source: Source, node: Composite) -> Facts:
    """Return the constraints of a field, without its name in Pulumi."""
    kind = source.value(node.get("Type"))
    found: Facts = {"type": _TYPES[kind.text]}
    for key, name in _FLAGS.items():
        if source.value(node.get(key)) is True:
            found[name] = True
    if node.get("Deprecated"):
        found["deprecated"] = True
    for key, name in _NUMBERS.items():
        if source.value(node.get(key)):
            found[name] = source.value(node.get(key))
    default = source.value(node.get("Default"))
    if default is not None:
        found["default"] = default.text if isinstance(default, Name) else default
    for key, name in _PATHS.items():
        paths = [_INDEX.sub("", path) for path in strings(source, node.get(key))]
        if paths:
            found[name] = paths
    suppress = node.get("DiffSuppressFunc")
    if suppress is not None:
        found["diff_suppress"] = named(suppress)
    if node.get("StateFunc") is not None:
        found["state_func"] = named(node.get("StateFunc"))
    return {**found, **rules(source, node.get("ValidateFunc")), **_element(source, node)}


def _element(source: Source, node: Composite) -> Facts:
    """Return the facts of a field's elements."""
    element = source.value(node.get("Elem"))
    if isinstance(element, Composite) and element.type == "schema.Resource":
        return {"elem": "block"}
    if not isinstance(element, Composite):
        return {"elem": "string"} if node.get("Type") == Name("schema.TypeMap") else {}
    inner = facts(source, element)
    each = {key: inner[key] for key in inner if key not in {"type", *_FLAGS.values()}}
    return {"elem": inner["type"], **({"each": each} if each else {})}


def strings(source: Source, found: Any) -> list[str]:
    """Return the texts of a list, or nothing if there is none."""
    found = source.value(found)
    if not isinstance(found, Composite):
        return []
    return [str(source.value(value)) for _, value in found.items]


def named(found: Any) -> str:
    """Return the name of a function, with its arguments if it is made by a call."""
    if isinstance(found, Name):
        return found.text
    if isinstance(found, Call) and found.name:
        listed = ", ".join(
            each.text if isinstance(each, Name) else str(each) for each in found.arguments
        )
        return f"{found.name}({listed})" if listed else found.name
    return "inline"


def rules(source: Source, found: Any) -> Facts:
    """Return the constraints of a validation function."""
    if found is None:
        return {}
    if isinstance(found, Call) and found.name in _RULES:
        return _RULES[found.name](source, found.arguments)
    if not isinstance(found, Name | Call):
        return {"validator": ["inline"]}
    called, given = (found.text, ()) if isinstance(found, Name) else (found.name, found.arguments)
    facts_of: Facts = {"validator": [named(found)]}
    if called in _REGEXES:
        facts_of["regex"] = [_REGEXES[called]]
    bounds = given if called == _NAME_OF_LENGTH else _BOUNDS.get(called, ())
    return {**facts_of, **dict(zip(("min_len", "max_len"), bounds, strict=False))}


def _enum(source: Source, arguments: tuple[Any, ...]) -> Facts:
    found: Facts = {"enum": strings(source, arguments[0])}
    if len(arguments) > 1 and arguments[1] is True:
        found["enum_ignore_case"] = True
    return found


def _numbers(*names: str) -> Callable[[Source, tuple[Any, ...]], Facts]:
    def make(source: Source, arguments: tuple[Any, ...]) -> Facts:
        return {name: source.value(value) for name, value in zip(names, arguments, strict=True)}

    return make


def _regex(source: Source, arguments: tuple[Any, ...]) -> Facts:
    text = source.value(arguments[0])
    if isinstance(text, Call):  # regexp.MustCompile
        text = source.value(text.arguments[0])
    return {"regex": [text]}


def _all(source: Source, arguments: tuple[Any, ...]) -> Facts:
    found: Facts = {}
    for each in arguments:
        for key, value in rules(source, each).items():
            is_list = key in ("regex", "validator")
            found[key] = [*found.get(key, ()), *value] if is_list else value
    return found


def _or_empty(source: Source, arguments: tuple[Any, ...]) -> Facts:
    return {**rules(source, arguments[0]), "or_empty": True}


_RULES: dict[str, Callable[[Source, tuple[Any, ...]], Facts]] = {
    "validation.All": _all,
    "validation.FloatAtLeast": _numbers("min"),
    "validation.FloatBetween": _numbers("min", "max"),
    "validation.IntAtLeast": _numbers("min"),
    "validation.IntAtMost": _numbers("max"),
    "validation.IntBetween": _numbers("min", "max"),
    "validation.StringInSlice": _enum,
    "validation.StringLenBetween": _numbers("min_len", "max_len"),
    "validation.StringMatch": _regex,
    "verify.OrEmpty": _or_empty,
    "verify.ValidateEnum": _enum,
    "verify.ValidateRegexp": _regex,
}
