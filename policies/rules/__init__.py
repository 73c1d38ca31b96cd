"""All policies of the pack, one per file, in a folder per subject."""

from functools import cache

from policies.framework.registry import Listed, by_name, discover
from policies.framework.rule import Policy, ResourceRule, StackRule


@cache
def policies() -> dict[str, Listed[Policy]]:
    """Return every policy by name."""
    return by_name(discover(__name__, Policy))


@cache
def resource_rules() -> tuple[ResourceRule, ...]:
    """Return the policies on single resources."""
    rules = [listed.rule for listed in policies().values()]
    return tuple(rule for rule in rules if isinstance(rule, ResourceRule))


@cache
def stack_rules() -> tuple[StackRule, ...]:
    """Return the policies on related resources."""
    rules = [listed.rule for listed in policies().values()]
    return tuple(rule for rule in rules if isinstance(rule, StackRule))
