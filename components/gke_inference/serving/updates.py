"""Rolling update settings of model servers."""


def update_steps(replicas: int) -> tuple[int, int]:
    """Return the maximum surge and the maximum unavailable replicas of an update.

    An update releases a chip before it requests one, because there may be none to spare. A single
    replica is replaced the other way round, since nothing else serves meanwhile.
    """
    return (1, 0) if replicas == 1 else (0, 1)
