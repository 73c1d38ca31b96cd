"""Shortcuts in the SDK's conversions of inputs and outputs.

The SDK (pulumi 3.272, `runtime/rpc.py`) asks of each text and number inside an input whether it is
one of ten kinds of object, takes the type of each property apart again for each resource, and waits
for four futures for each property. With 831 resources, this took a fifth of a program's time.
"""

import asyncio
import functools
import importlib
from typing import Any, cast

_rpc: Any = importlib.import_module("pulumi.runtime.rpc")
_output: Any = importlib.import_module("pulumi.output")
_types: Any = importlib.import_module("pulumi._types")
_serialize: Any = _rpc.serialize_property
_contains: Any = _rpc.contains_unknowns
_deserialize: Any = _rpc.deserialize_property
_transfer: Any = _rpc.transfer_properties
_translate: Any = _rpc.translate_output_properties
_unwrap: Any = _types.unwrap_type
_unwrap_optional: Any = _types.unwrap_optional_type

_PLAIN = frozenset({str, bool, int, float, type(None)})
"""Types of values that are sent and received as they are. A subclass, such as an enum, is not."""
_KEPT = frozenset({str, bool, int, type(None)})
"""Those whose values no plain type changes: a float becomes an int if its property is one."""
_BY_CLASS = (
    "input_type_py_to_pulumi_names",
    "resource_pulumi_to_py_names",
    "resource_py_to_pulumi_names",
    "resource_types",
)
"""Functions that return the same names or types of a class each time, for reading."""


def convert_quickly() -> None:
    """Install the shortcuts."""
    _rpc.serialize_property = _serialized
    _rpc.contains_unknowns = _contains_unknowns
    _rpc.deserialize_property = _deserialized
    _rpc.transfer_properties = _transferred
    _rpc.translate_output_properties = _translated
    _types.unwrap_type = _once_per_type(_unwrap)
    _types.unwrap_optional_type = _once_per_type(_unwrap_optional)
    for name in _BY_CLASS:
        function = getattr(_types, name)
        if not hasattr(function, "cache_info"):
            setattr(_types, name, functools.cache(function))


async def _serialized(
    value: Any,
    deps: Any,
    property_key: Any,
    resource_obj: Any = None,
    input_transformer: Any = None,
    typ: Any = None,
    keep_output_values: bool = False,
    exclude_resource_refs_from_deps: bool = False,
    return_protobuf_value: bool = False,
) -> Any:
    """Return an input as it is sent to the engine."""
    kind = cast("Any", type(value))
    if not return_protobuf_value:
        if kind in _PLAIN:
            return value
        if kind is dict and typ is None:
            rest = (input_transformer, None, keep_output_values, exclude_resource_refs_from_deps)
            return {
                input_transformer(key) if input_transformer else key: await _serialized(
                    each, deps, key, resource_obj, *rest
                )
                for key, each in value.items()
            }
    return await _serialize(
        value,
        deps,
        property_key,
        resource_obj,
        input_transformer,
        typ,
        keep_output_values,
        exclude_resource_refs_from_deps,
        return_protobuf_value,
    )


def _contains_unknowns(val: Any) -> bool:
    """Return whether a value has a part that only the deployment knows."""
    return type(val) not in _PLAIN and _contains(val)


def _deserialized(
    value: Any, keep_unknowns: bool | None = None, keep_internal: bool | None = True
) -> Any:
    """Return a value of the engine as one of Python."""
    if type(value) in _PLAIN and value != _rpc.UNKNOWN:
        return value
    return _deserialize(value, keep_unknowns, keep_internal)


def _transferred(res: Any, props: Any, custom: bool) -> dict[str, Any]:
    """Give a resource an output for each property, and return the functions that resolve them.

    The SDK makes four futures and a task for each.
    """
    resolvers: dict[str, Any] = {}
    for name in props:
        if name == "urn" or (name == "id" and custom):
            continue
        data: asyncio.Future[Any] = asyncio.Future()
        resolvers[name] = functools.partial(_resolve, res, data)
        res.__dict__[name] = _output.Output._from_data(data)
    return resolvers


def _resolve(
    res: Any,
    data: "asyncio.Future[Any]",
    value: Any,
    is_known: bool,
    is_secret: bool,
    deps: set[Any] | None,
    failed: Exception | None,
) -> None:
    if failed is not None:
        data.set_exception(failed)
        return
    data.set_result(
        _output._OutputData(
            resources={*(deps or ()), res}, value=value, is_known=is_known, is_secret=is_secret
        )
    )


def _translated(
    output: Any,
    output_transformer: Any,
    typ: Any = None,
    transform_using_type_metadata: bool = False,
    path: Any = None,
    return_none_on_dict_type_mismatch: bool = False,
) -> Any:
    """Return an output of the engine with the names and types of Python."""
    if type(output) in _KEPT and _is_unchanging(typ):
        return output
    return _translate(
        output,
        output_transformer,
        typ,
        transform_using_type_metadata,
        path,
        return_none_on_dict_type_mismatch,
    )


def _is_unchanging(typ: Any) -> bool:
    return typ is None or typ is str or typ is bool or typ is int or typ is float or typ is Any


def _once_per_type(function: Any) -> Any:
    """Return a function of a type that remembers its results.

    Equal types are not the same: `A | B` equals `B | A`, but not for the SDK, which looks at the
    first. So a type is known by its identity, and kept.
    """
    known: dict[int, tuple[Any, Any]] = {}

    def unwrapped(val: Any) -> Any:
        found = known.get(id(val))
        if found is None:
            found = known[id(val)] = (val, function(val))
        return found[1]

    return unwrapped
