"""Parts of the twin's processes that run in threads until they are stopped."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

_RESTART_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)
Run = Callable[[threading.Event], None]
"""Runs a part until the event is set."""


def start_all(parts: Mapping[str, Run], stop: threading.Event) -> list[threading.Thread]:
    """Start each part in a thread, which ends with the process; one that fails runs again.

    Args:
        parts: The parts by their name in the log.
        stop: Event that ends them.
    """
    threads = [
        threading.Thread(target=keep_running, args=(name, run, stop), daemon=True, name=name)
        for name, run in parts.items()
    ]
    for thread in threads:
        thread.start()
    return threads


def keep_running(name: str, run: Run, stop: threading.Event) -> None:
    """Run a part until `stop` is set, and again after a failure, because others depend on it.

    Args:
        name: Name of the part in the log.
        run: The part.
        stop: The event.
    """
    while not stop.is_set():
        try:
            run(stop)
        except Exception:  # noqa: BLE001 - a twin without one of its parts only looks alive
            _log.exception("%s ended, starting it again", name)
        stop.wait(_RESTART_SECONDS)
