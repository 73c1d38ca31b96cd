"""Parts of the twin's processes that run in threads until they are stopped."""

import logging
import threading
from collections.abc import Callable
from typing import Final

_RESTART_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


def keep_running(name: str, run: Callable[[threading.Event], None], stop: threading.Event) -> None:
    """Run a part until `stop` is set, and again after a failure, because others depend on it.

    Args:
        name: Name of the part in the log.
        run: Runs the part until the event is set.
        stop: The event.
    """
    while not stop.is_set():
        try:
            run(stop)
        except Exception:  # noqa: BLE001 - a twin without one of its parts only looks alive
            _log.exception("%s ended, starting it again", name)
        stop.wait(_RESTART_SECONDS)
