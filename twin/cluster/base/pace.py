"""How long a controller rests after a scan of everything, so that a large cluster stays usable."""

import threading
import time
from collections.abc import Callable

_TIMES = 9.0
_MOST_SECONDS = 2.0
LOOK_SECONDS = 0.3
"""How often a controller looks for what cannot wait, such as a machine that is withdrawn."""


def rest(begun: float) -> float:
    """Return how long to rest, in seconds: nine times the processor time since `begun`, at most 2.

    All controllers share one interpreter, so scans of many objects slow all of them and the watches
    down. With a few nodes, the rest is some milliseconds.

    Args:
        begun: `time.thread_time()` at the start of the scan.
    """
    return min(_MOST_SECONDS, _TIMES * (time.thread_time() - begun))


def wait_unless(stop: threading.Event, seconds: float, is_due: Callable[[], bool]) -> None:
    """Wait for some seconds, or until `stop` is set or something is due that cannot wait."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0.0:
        if stop.wait(min(LOOK_SECONDS, left)) or (left > LOOK_SECONDS and is_due()):
            return
