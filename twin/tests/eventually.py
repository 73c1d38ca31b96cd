"""Waiting in tests: a check is repeated until it holds."""

import time
from collections.abc import Callable
from typing import Any

_LEAST_SECONDS, _MOST_SECONDS = 0.05, 0.25


def pause(waited: float) -> float:
    """Return how long to wait before the next check: a twentieth of what was waited so far.

    Checks are requests to servers that share two cores with what is waited for.
    """
    return max(_LEAST_SECONDS, min(waited / 20, _MOST_SECONDS))


def eventually(check: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Repeat a check until it holds, and return what it returned."""
    began = time.monotonic()
    problem: object = None
    while (waited := time.monotonic() - began) < seconds:
        try:
            found = check()
            if found:
                return found
            problem = found
        except Exception as error:  # noqa: BLE001  # the last one is shown
            problem = error
        time.sleep(pause(waited))
    raise AssertionError(f"not within {seconds} s: {problem!r}")
