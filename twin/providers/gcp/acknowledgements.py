"""Notes that an engine knows of what it asked for (rule cloud.create.interrupted).

An engine that was told of a new resource writes its state within moments. If it is still connected
some time after the answer, it has; only what it was told just before it went may be lost on it.
"""

import threading
import time
from collections import deque

from twin.wire.peers import connected_ports, port_of
from twin.world.store import Store


class Witness:
    """Acknowledges resources whose engine outlived the answer."""

    def __init__(self, store: Store, settle: float) -> None:
        """Start with nothing told.

        Args:
            store: of the resources.
            settle: seconds, of real time, after which an engine has written its state.
        """
        self._store = store
        self._settle = settle
        self._told: deque[tuple[float, int, str, str]] = deque()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def told(self, peer: str, token: str, resource_id: str) -> None:
        """Note that an engine was told of a resource.

        Args:
            peer: of the gRPC call, such as `ipv4:127.0.0.1:43397`.
            token: of the resource's type.
            resource_id: of the resource.
        """
        port = port_of(peer)
        if port is None:
            return
        with self._lock:
            self._told.append((time.monotonic() + self._settle, port, token, resource_id))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="witness")
                self._thread.start()
        self._more.set()

    def _run(self) -> None:
        while True:
            if not self._told:
                self._more.wait()
                self._more.clear()
                continue
            time.sleep(max(0.0, self._told[0][0] - time.monotonic()))
            self.settle()

    def settle(self) -> None:
        """Acknowledge what is due; what an engine that has gone was told last stays open."""
        ports = connected_ports()
        while self._told and self._told[0][0] <= time.monotonic():
            _, port, token, resource_id = self._told.popleft()
            if port in ports:
                self._store.acknowledge(token, resource_id)
