"""Waiting in tests: a check is repeated until it holds."""

import time
from collections.abc import Callable
from typing import Any


def eventually(check: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Repeat a check until it holds, and return what it returned."""
    limit = time.monotonic() + seconds
    problem: object = None
    while time.monotonic() < limit:
        try:
            found = check()
            if found:
                return found
            problem = found
        except Exception as error:  # noqa: BLE001  # the last one is shown
            problem = error
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {problem!r}")
