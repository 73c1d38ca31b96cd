"""Machine types that Compute Engine places close to each other on request. Pure.

Rule: `placement.compact`.
"""

from collections.abc import Sequence

from twin.world.machines import Machine

_GENERAL = frozenset(["c2", "c2d", "c3", "c3d", "c4a", "c4d", "h3", "h4d", "n2", "n2d"])


def has_compact_placement(item: Machine, *, flex: bool = False) -> bool:
    """Return whether nodes of a machine type can have compact placement.

    Args:
        item: Machine type.
        flex: Whether they are flex-start VMs.
    """
    details = item.details
    if details is None:
        return item.family in _GENERAL and not flex
    return details.compact is not None and (details.compact.flex_start or not flex)


def policy_problem(
    policy: str, item: Machine, others: Sequence[Machine], added: int = 0
) -> str | None:
    """Return why a placement policy cannot have more machines, or None.

    Args:
        policy: Name of the policy.
        item: Type of the machines to add.
        others: Machines that have the policy.
        added: How many machines to add.
    """
    series = sorted({other.family for other in others} - {item.family})
    if series:
        return (
            f"Machine type {item.name} cannot use the resource policy '{policy}', whose instances "
            f"are of the machine series {', '.join(series)}."
        )
    compact = None if item.details is None else item.details.compact
    if compact is not None and len(others) + added > compact.most_nodes:
        return (
            f"The resource policy '{policy}' can have at most {compact.most_nodes} instances of "
            f"the machine series {item.family}."
        )
    return None
