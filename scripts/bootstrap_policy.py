"""IAM policies as values: what is missing from one, and the same with that added."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Grant:
    """A role for a member."""

    role: str
    member: str


def missing(policy: Json, grants: Iterable[Grant]) -> list[Grant]:
    """Return the grants that a policy does not give without a condition."""
    given = {
        Grant(binding["role"], member)
        for binding in policy.get("bindings", [])
        if "condition" not in binding
        for member in binding.get("members", [])
    }
    return [grant for grant in grants if grant not in given]


def merged(policy: Json, grants: Iterable[Grant]) -> Json:
    """Return a policy with the grants added and everything else as it was, the etag included."""
    bindings: list[Json] = [dict(binding) for binding in policy.get("bindings", [])]
    for grant in missing(policy, grants):
        for binding in bindings:
            if binding["role"] == grant.role and "condition" not in binding:
                binding["members"] = [*binding.get("members", []), grant.member]
                break
        else:
            bindings.append({"role": grant.role, "members": [grant.member]})
    return {**policy, "bindings": bindings}
