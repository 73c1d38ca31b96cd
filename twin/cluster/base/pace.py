"""How long a controller rests after a scan of everything, so that a large cluster stays usable."""

import time

_TIMES = 9.0
_MOST_SECONDS = 2.0


def rest(begun: float) -> float:
    """Return how long to rest, in seconds: nine times the processor time since `begun`, at most 2.

    All controllers share one interpreter, so scans of many objects slow all of them and the watches
    down. With a few nodes, the rest is some milliseconds.

    Args:
        begun: `time.thread_time()` at the start of the scan.
    """
    return min(_MOST_SECONDS, _TIMES * (time.thread_time() - begun))
