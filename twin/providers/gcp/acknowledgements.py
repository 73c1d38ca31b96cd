"""Acknowledgments that an engine knows the resources it requested (rule cloud.create.interrupted).

An engine writes its state shortly after the response for a new resource. If it is still connected
some time after the response, the state is written. Only responses just before a disconnection can
be lost.
"""

import threading
import time
from collections import deque

from twin.wire.peers import connected_ports, port_of
from twin.world.store import Store


class Witness:
    """Acknowledgment of resources whose engine outlived the response."""

    def __init__(self, store: Store, settle: float) -> None:
        """Start without responses.

        Args:
            store: store of the resources.
            settle: time after which an engine has written its state, in seconds of real time.
        """
        self._store = store
        self._settle = settle
        self._pending: deque[tuple[float, int, str, str]] = deque()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def told(self, peer: str, token: str, resource_id: str) -> None:
        """Record the response for a resource to an engine.

        Args:
            peer: peer of the gRPC call, such as `ipv4:127.0.0.1:43397`.
            token: type token of the resource.
            resource_id: ID of the resource.
        """
        port = port_of(peer)
        if port is None:
            return
        with self._lock:
            self._pending.append((time.monotonic() + self._settle, port, token, resource_id))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="witness")
                self._thread.start()
        self._more.set()

    def _run(self) -> None:
        while True:
            if not self._pending:
                self._more.wait()
                self._more.clear()
                continue
            time.sleep(max(0.0, self._pending[0][0] - time.monotonic()))
            self.settle()

    def settle(self) -> None:
        """Acknowledge what is due, except the last responses to a disconnected engine."""
        ports = connected_ports()
        while self._pending and self._pending[0][0] <= time.monotonic():
            _, port, token, resource_id = self._pending.popleft()
            if port in ports:
                self._store.acknowledge(token, resource_id)
