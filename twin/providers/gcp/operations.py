"""Work that goes on when the engine that asked for it is gone.

An operation runs on a thread of the daemon. The call that started it waits for the result; if the
engine dies, the operation still ends and the store keeps what it made. After a crash of the daemon,
`Lifecycle.resume` takes up what was under way.
"""

import threading
from collections.abc import Callable
from typing import Any

from twin.wire.property_values import Json

Work = Callable[[], Json]
_POLL_SECONDS = 0.5


class Operation:
    """One piece of work under way or done."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._result: Json = {}
        self._error: Exception | None = None

    def finish(self, result: Json, error: Exception | None) -> None:
        """Record how it ended."""
        self._result, self._error = result, error
        self._done.set()

    def wait(self, context: Any = None) -> Json:
        """Return the result once it is there.

        Args:
            context: of the gRPC call that waits; once that is over, so is the waiting.

        Raises:
            EngineGoneError: the caller went away first; the work goes on.
            Exception: what the work raised.
        """
        while not self._done.wait(_POLL_SECONDS):
            if context is not None and not context.is_active():
                raise EngineGoneError
        if self._error is not None:
            raise self._error
        return self._result


class EngineGoneError(Exception):
    """The engine that waited for an operation is gone."""


class Operations:
    """The operations of one daemon, one at a time for each resource."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Operation] = {}

    def running(self, token: str, resource_id: str) -> Operation | None:
        """Return the operation under way on a resource."""
        with self._lock:
            return self._running.get((token, resource_id))

    def start(self, token: str, resource_id: str, work: Work) -> Operation:
        """Run `work` on a thread of its own and return its operation."""
        operation = Operation()
        key = (token, resource_id)
        with self._lock:
            self._running[key] = operation

        def run() -> None:
            result: Json = {}
            error: Exception | None = None
            try:
                result = work()
            except Exception as caught:  # noqa: BLE001 - handed to the call that waits
                error = caught
            with self._lock:
                if self._running.get(key) is operation:
                    del self._running[key]
            operation.finish(result, error)

        threading.Thread(target=run, daemon=True, name=f"operation {resource_id}").start()
        return operation
