"""Operations that continue after the requesting engine disconnects.

An operation runs on a thread of the daemon. The call that started it waits for the result. If the
engine dies, the operation still completes and the store keeps its result. After a crash of the
daemon, `Lifecycle.resume` resumes interrupted operations.
"""

import threading
from collections.abc import Callable
from typing import Any

from twin.wire.property_values import Json

Work = Callable[[], Json]
_POLL_SECONDS = 0.5


class Operation:
    """A running or completed operation."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._result: Json = {}
        self._error: Exception | None = None

    def finish(self, result: Json, error: Exception | None) -> None:
        """Record the outcome."""
        self._result, self._error = result, error
        self._done.set()

    def wait(self, context: Any = None) -> Json:
        """Wait for the result and return it.

        Args:
            context: context of the waiting gRPC call; when the call ends, the wait ends.

        Raises:
            EngineGoneError: the caller disconnected first; the operation continues.
            Exception: exception of the operation.
        """
        while not self._done.wait(_POLL_SECONDS):
            if context is not None and not context.is_active():
                raise EngineGoneError
        if self._error is not None:
            raise self._error
        return self._result


class EngineGoneError(Exception):
    """The engine that waited for an operation disconnected."""


class Operations:
    """The operations of one daemon, at most one at a time per resource."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Operation] = {}

    def running(self, token: str, resource_id: str) -> Operation | None:
        """Return the running operation on a resource."""
        with self._lock:
            return self._running.get((token, resource_id))

    def start(self, token: str, resource_id: str, work: Work) -> Operation:
        """Run `work` on its own thread and return its operation."""
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
