"""Every policy of the pack, by subject; one a file."""

from functools import cache

from policies.framework.registry import Listed, by_name, discover
from policies.framework.rule import Policy, ResourceRule, StackRule


@cache
def policies() -> dict[str, Listed[Policy]]:
    """Return every policy by name."""
    return by_name(discover(__name__, Policy))


@cache
def resource_rules() -> tuple[ResourceRule, ...]:
    """Return the policies about one resource."""
    rules = [listed.rule for listed in policies().values()]
    return tuple(rule for rule in rules if isinstance(rule, ResourceRule))


@cache
def stack_rules() -> tuple[StackRule, ...]:
    """Return the policies about resources that belong together."""
    rules = [listed.rule for listed in policies().values()]
    return tuple(rule for rule in rules if isinstance(rule, StackRule))
