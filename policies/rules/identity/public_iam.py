"""Nothing is granted to everybody."""

from collections.abc import Iterator

from policies.reading import at, entries
from policies.rule import Config, Resource, Rule

_EVERYBODY = frozenset(["allUsers", "allAuthenticatedUsers"])


def is_grant(resource: Resource) -> bool:
    """Say whether a resource grants roles on something in Google Cloud."""
    return resource.type.startswith("gcp:") and (
        resource.kind.lower().endswith(("iammember", "iambinding"))
    )


def members(resource: Resource) -> list[str]:
    """Return whom a grant is for."""
    one = at(resource.props, "member")
    return ([str(one)] if one is not None else []) + [
        str(member) for member in entries(resource.props, "members")
    ]


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    who = members(resource)
    if not who:
        yield "member: must say whom the role is for, got nobody"
    for member in who:
        if member in _EVERYBODY:
            yield f"member: must not be everybody, got {member!r}"


RULE = Rule(
    name="public-iam",
    description="No role is granted to allUsers or allAuthenticatedUsers.",
    applies=is_grant,
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 5.1",
)
