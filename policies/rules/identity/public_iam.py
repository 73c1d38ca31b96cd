"""No roles for the general public."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, entries
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_EVERYBODY = frozenset(["allUsers", "allAuthenticatedUsers"])


def is_grant(resource: Resource) -> bool:
    """Return whether a resource grants roles in Google Cloud."""
    return resource.type.startswith("gcp:") and (
        resource.kind.lower().endswith(("iammember", "iambinding"))
    )


def members(resource: Resource) -> list[str]:
    """Return the members that a role is granted to."""
    one = at(resource.props, "member")
    return ([str(one)] if one is not None else []) + [
        str(member) for member in entries(resource.props, "members")
    ]


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    who = members(resource)
    if not who:
        yield broken(resource, "member", "nobody", "must list the members of the role")
    for member in who:
        if member in _EVERYBODY:
            yield broken(resource, "member", quoted(member), "must not be public")


RULE = ResourceRule(
    name="public-iam",
    description="No role is granted to allUsers or allAuthenticatedUsers.",
    applies=is_grant,
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 5.1",
)
