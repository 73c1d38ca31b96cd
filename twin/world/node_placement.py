"""Machine types that Compute Engine places close to each other on request. Pure.

Rule: `placement.compact`.
"""

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
