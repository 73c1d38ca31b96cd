"""IAM policies as values: what is missing from one, and the same with that added."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_WITH_CONDITIONS = 3  # version of a policy that has them


@dataclass(frozen=True, order=True)
class Grant:
    """A role for a member, everywhere or where a condition holds."""

    role: str
    member: str
    condition: str = ""
    """Expression over the resource, such as `resource.name == 'projects/_/buckets/B'`."""


def in_bucket(bucket: str) -> str:
    """Return the condition that a resource is a bucket or lies in it."""
    name = f"projects/_/buckets/{bucket}"
    return f"resource.name == '{name}' || resource.name.startsWith('{name}/')"


def missing(policy: Json, grants: Iterable[Grant]) -> list[Grant]:
    """Return the grants that a policy does not give under just their condition."""
    given = {
        Grant(binding["role"], member, _condition(binding))
        for binding in policy.get("bindings", [])
        for member in binding.get("members", [])
    }
    return [grant for grant in grants if grant not in given]


def merged(policy: Json, grants: Iterable[Grant]) -> Json:
    """Return a policy with the grants added and everything else as it was, the etag included."""
    bindings: list[Json] = [dict(binding) for binding in policy.get("bindings", [])]
    for grant in missing(policy, grants):
        for binding in bindings:
            if binding["role"] == grant.role and _condition(binding) == grant.condition:
                binding["members"] = [*binding.get("members", []), grant.member]
                break
        else:
            bindings.append(_binding(grant))
    if any("condition" in binding for binding in bindings):
        return {**policy, "bindings": bindings, "version": _WITH_CONDITIONS}
    return {**policy, "bindings": bindings}


def _condition(binding: Json) -> str:
    """Return the expression of a binding, empty where it holds everywhere."""
    if "condition" not in binding:
        return ""
    return str(binding["condition"].get("expression", "?"))


def _binding(grant: Grant) -> Json:
    binding: Json = {"role": grant.role, "members": [grant.member]}
    if grant.condition:
        binding["condition"] = {"expression": grant.condition, "title": "gke-inference"}
    return binding
