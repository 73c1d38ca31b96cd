"""How the replicas of a server are replaced in an update."""


def update_steps(replicas: int) -> tuple[int, int]:
    """Returns how many replicas an update may add, and how many it may take away.

    An update takes a chip away before it asks for one, because there may be none to spare; a
    single replica is replaced the other way round, as nothing else serves meanwhile.
    """
    return (1, 0) if replicas == 1 else (0, 1)
