"""Names of properties in the Pulumi SDK, and properties that only one side has."""

import collections.abc
import typing
from collections.abc import Iterator
from typing import Any

from scripts.develop.provider_data.fields import Facts
from twin.providers.gcp.schema import sdk

_RENAMED = {
    ("", "terraform_labels"): "pulumiLabels",
    ("gcp:bigquery/datasetAccess:DatasetAccess", "dataset"): "authorizedDataset",
}
"""Names that Pulumi's bridge gives, by type (empty for all) and path."""
_IMPLICIT = frozenset(["id", "urn"])


def in_pulumi(token: str, fields: dict[str, Facts]) -> dict[str, Facts]:
    """Return fields with their names in the SDK; without `pulumi` if it does not have them.

    Args:
        token: type token of the resource.
        fields: facts by path.
    """
    arguments = sdk.argument_types(token) or {}
    types = {"": {**sdk.state_types(token), **arguments}}
    needed = {"": sdk.required_arguments(token)}
    paths, found = {"": ""}, dict[str, Facts]()
    for path in sorted(fields, key=lambda each: each.count(".")):
        above, _, own = path.rpartition(".")
        facts = dict(fields[path])
        renamed = _RENAMED.get(("", path)) or _RENAMED.get((token, path))
        name = renamed or _name(own, types.get(above, {}))
        found[path] = facts
        if name is None or above not in paths:
            continue
        kind = types[above][name]
        paths[path] = f"{paths[above]}.{name}".lstrip(".")
        facts["pulumi"] = paths[path]
        if facts["type"] in ("list", "set") and not _is_list(kind):
            facts["flat"] = True
        elif facts["type"] in ("list", "set"):
            paths[path] += "[]"
        if facts.get("elem") == "block":
            types[path], needed[path] = sdk.nested_types(kind), sdk.nested_required(kind)
        if facts.get("required") and name not in needed[above]:
            facts["pulumi_optional"] = True
    return {path: found[path] for path in sorted(found)}


def only_in_sdk(token: str, fields: dict[str, Facts]) -> list[str]:
    """Return the paths of properties that the SDK has and the fields do not."""
    known = {str(facts["pulumi"]) for facts in fields.values() if "pulumi" in facts}
    types = {**sdk.state_types(token), **(sdk.argument_types(token) or {})}
    return sorted(path for path in _paths(types, "") if path not in known)


def _paths(types: dict[str, Any], above: str) -> Iterator[str]:
    for name, kind in types.items():
        if above or name not in _IMPLICIT:
            yield above + name
            inner = sdk.nested_types(kind)
            yield from _paths(inner, above + name + ("[]." if _is_list(kind) else "."))


def _name(own: str, types: dict[str, Any]) -> str | None:
    words = own.split("_")
    camel = words[0] + "".join(word[:1].upper() + word[1:] for word in words[1:])
    plurals = (camel, camel + "s", camel + "es", camel[:-1] + "ies")
    return next((name for name in plurals if name in types), None)


def _is_list(kind: Any) -> bool:
    origin: Any = typing.get_origin(kind)
    if origin is not None and origin is not typing.Union:
        return origin is collections.abc.Sequence or any(map(_is_list, typing.get_args(kind)))
    return any(map(_is_list, typing.get_args(kind)))
