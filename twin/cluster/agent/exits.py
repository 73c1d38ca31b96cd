"""The ends of processes, told to whoever waits for them (pidfd_open(2)).

A process that this one did not start tells it as well, so processes of an earlier agent need no
other way.
"""

import logging
import os
import select
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_waiting: dict[int, Callable[[], None]] = {}
_poll: list[select.epoll] = []


def when_ended(pid: int, tell: Callable[[], None]) -> None:
    """Call a function once when a process has ended, in another thread.

    Without a descriptor, such as at the limit of open files, it is never called: whoever waits also
    looks from time to time.

    Args:
        pid: The process; if there is none, the function is called at once.
        tell: The function. It must return at once.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        tell()
        return
    except OSError as error:
        _log.warning("process %d: %s", pid, error)
        return
    with _lock:
        if not _poll:
            _poll.append(select.epoll())
            threading.Thread(target=_run, args=(_poll[0],), daemon=True, name="exits").start()
        _waiting[handle] = tell
        _poll[0].register(handle, select.EPOLLIN | select.EPOLLONESHOT)


def _run(poll: select.epoll) -> None:
    while True:
        for handle, _ in poll.poll():
            with _lock:
                tell = _waiting.pop(handle)
                poll.unregister(handle)
                os.close(handle)
            tell()
