"""Names and types from the installed `pulumi_gcp`, if the constraint data does not have them."""

import collections.abc
import importlib
import inspect
import json
import re
import sys
import typing
from functools import cache
from typing import Any

from twin.providers.gcp.schema.fields import Autoname, Field, Resource

_SCALARS: dict[Any, str] = {str: "string", int: "int", float: "float", bool: "bool"}
_CLASSES = re.compile(r'resource_modules="""(.*?)"""', re.DOTALL)


def _types() -> Any:
    """Return the SDK's module; most processes of the twin need no SDK, which takes long to load."""
    return importlib.import_module("pulumi._types")


@cache
def _registry() -> dict[str, tuple[str, str]]:
    module: Any = importlib.import_module("pulumi_gcp")
    found = _CLASSES.search(inspect.getsource(module))
    if found is None:
        raise RuntimeError("pulumi_gcp: its table of resource classes was not found")
    return {
        token: (entry["fqn"], name)
        for entry in json.loads(found.group(1))
        for token, name in entry["classes"].items()
    }


def resource_class(token: str) -> Any | None:
    """Return the class of a resource type, or None if the SDK does not have it."""
    entry = _registry().get(token)
    return None if entry is None else getattr(importlib.import_module(entry[0]), entry[1])


@cache
def _tokens() -> dict[tuple[str, str], str]:
    return {entry: token for token, entry in reversed(_registry().items())}


def token_of(module: str, name: str) -> str | None:
    """Return the token of a class such as `Network` in `pulumi_gcp.compute`, or None."""
    return _tokens().get((module, name))


def argument_types(token: str) -> dict[str, Any] | None:
    """Return the types of a resource's inputs by camelCase name, or None if it is unknown."""
    cls = resource_class(token)
    if cls is None:
        return None
    return _types().input_type_types(_arguments(cls))


def required_arguments(token: str) -> set[str]:
    """Return the camelCase names of a resource's required inputs."""
    cls = resource_class(token)
    return set() if cls is None else _required(_arguments(cls))


def _arguments(cls: Any) -> Any:
    """Return the class of a resource's inputs; some nested types have its usual name."""
    module = sys.modules[cls.__module__]
    named = f"{cls.__name__}InitArgs", f"{cls.__name__}Args"
    return next(getattr(module, name) for name in named if hasattr(module, name))


def state_types(token: str) -> dict[str, Any]:
    """Return the types of all properties of a resource, including computed ones."""
    cls = resource_class(token)
    if cls is None:
        return {}
    module = sys.modules[cls.__module__]
    return _types().input_type_types(getattr(module, f"_{cls.__name__}State"))


@cache
def resource(token: str) -> Resource | None:
    """Build a resource type only from the SDK: names, types and required inputs."""
    arguments = argument_types(token)
    if arguments is None:
        return None
    cls: Any = resource_class(token)
    needed = _required(_arguments(cls))
    root = Field(name="", path="", kind="object", optional=True)
    for name, kind in state_types(token).items():
        root.children[name] = _field(name, name, kind, computed=name not in arguments)
    for name, kind in arguments.items():
        child = _field(name, name, kind, required=name in needed)
        child.computed = not child.required
        root.children[name] = child
    named = "name" in arguments and "name" not in needed
    return Resource(
        token=token,
        source_name="",
        root=root,
        autoname=Autoname("name", 255, "-") if named else None,
    )


def add_path(token: str, root: Field, path: str) -> None:
    """Add a property with its children that only the SDK has, not the constraint data.

    Args:
        token: type token of the resource.
        root: root of its tree.
        path: path of the property, such as
            `networkConfig.additionalNodeNetworkConfigs[].stackType`.
    """
    parents = [part.removesuffix("[]") for part in path.split(".")]
    kind: Any = None
    types = {**state_types(token), **(argument_types(token) or {})}
    node = root
    for part in parents:
        kind = types.get(part)
        if kind is None:
            return
        child = node.block.children.get(part)
        if child is None:
            child = _field(part, f"{node.path}.{part}".lstrip("."), kind)
            child.computed = part not in (argument_types(token) or {}) and node is root
            node.block.children[part] = child
            return
        node, types = child, nested_types(kind)


def nested_types(kind: Any) -> dict[str, Any]:
    """Return the types of a block's properties; empty for a plain value."""
    for candidate in _flatten(kind):
        if _types().is_input_type(candidate):
            return _types().input_type_types(candidate)
    return {}


def nested_required(kind: Any) -> set[str]:
    """Return the camelCase names of a block's required properties; empty for a plain value."""
    for candidate in _flatten(kind):
        if _types().is_input_type(candidate):
            return _required(candidate)
    return set()


def _flatten(kind: Any) -> list[Any]:
    """Return the types in an `Input[Sequence[Input[T]]]`, outermost first."""
    origin: Any = typing.get_origin(kind)
    if origin is None:
        return [kind]
    return [kind, *(inner for arg in typing.get_args(kind) for inner in _flatten(arg))]


def _field(
    name: str,
    path: str,
    kind: Any,
    *,
    required: bool = False,
    computed: bool = False,
) -> Field:
    node = Field(name=name, path=path, required=required, computed=computed)
    node.optional = not required and not computed
    found = _flatten(kind)
    origins = {typing.get_origin(item) for item in found}
    inputs = [item for item in found if _types().is_input_type(item)]
    scalars = [_SCALARS[item] for item in found if item in _SCALARS]
    element = "object" if inputs else (scalars[0] if scalars else "any")
    if collections.abc.Sequence in origins:
        node.kind = "list"
    elif collections.abc.Mapping in origins and not inputs:
        node.kind = "map"
        element = scalars[-1] if scalars else "any"
    else:
        node.kind = element
    holder = node
    if node.kind in ("list", "map"):
        holder = Field(name=name, path=path, kind=element, optional=True)
        node.items = holder
    if inputs:
        needed = _required(inputs[0])
        for child, child_kind in _types().input_type_types(inputs[0]).items():
            holder.children[child] = _field(
                child, f"{path}.{child}", child_kind, required=child in needed
            )
    return node


def _required(cls: Any) -> set[str]:
    """Return the camelCase names of a constructor's required inputs."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    renamed: dict[str, str] = dict(_types().input_type_py_to_pulumi_names(cls))
    return {
        renamed.get(item.name, item.name)
        for item in parameters
        if item.default is inspect.Parameter.empty
        and item.name not in ("self", "__self__")
        and item.kind is not inspect.Parameter.VAR_KEYWORD
    }
