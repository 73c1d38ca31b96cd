"""State of provider instances, each of which has its own connection from the engine.

Calls do not name their instance, so the connection identifies it: its peer address is unique while
it is open, and the engine keeps it open until the operation ends.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from twin.providers.kubernetes.manifests.applying import How
from twin.providers.kubernetes.manifests.errors import InvalidInput, ProviderError
from twin.providers.kubernetes.manifests.managers import manager_of
from twin.providers.kubernetes.settings import Settings, read_kubeconfig
from twin.wire.engine_log import EngineLog
from twin.wire.kube import JsonObject, Kube, KubeError
from twin.wire.peers import connected_ports, port_of

_PROBE_SECONDS = 3.0
_POOL_SIZE = 64
_KEPT = 200


class Session:
    """One configured provider instance, and its cluster."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.log = EngineLog()
        self._calls: set[threading.Event] = set()
        self._lock = threading.Lock()
        self._kube: Kube | None = None
        self._unreachable: str | None = None
        self._probed = False

    def configure(self, settings: Settings) -> None:
        """Store new arguments; the cluster is contacted on first use."""
        with self._lock:
            self.settings = settings
            self._kube, self._probed, self._unreachable = None, False, None

    def how(self, obj: JsonObject, state: JsonObject) -> How:
        """Return the write settings from the provider's arguments and the object's state."""
        options = self.settings or Settings()
        manager = manager_of(obj, state)
        return How(manager, force=options.patch_force, upsert=options.upsert)

    def new_call(self, context: Any) -> threading.Event:
        """Return an event that is set when the engine cancels or disconnects during the call."""
        stop = threading.Event()

        def ended() -> None:
            stop.set()
            with self._lock:
                self._calls.discard(stop)

        with self._lock:
            self._calls.add(stop)
        if not context.add_callback(ended):
            ended()
        return stop

    def close(self) -> None:
        """Close the connections to the cluster and to the engine."""
        with self._lock:
            kube, self._kube, self._probed = self._kube, None, False
        if kube is not None:
            kube.close()
        self.log.close()

    def cancel(self) -> None:
        """End the waits of every call in progress."""
        with self._lock:
            calls = list(self._calls)
        for stop in calls:
            stop.set()

    def kube(self) -> Kube:
        """Return the cluster's API.

        Raises:
            ProviderError: the provider has no kubeconfig, or the cluster does not answer.
        """
        with self._lock:
            if not self._probed:
                self._unreachable = self._probe()
                self._probed = True
            if self._unreachable is not None or self._kube is None:
                raise ProviderError(f"the cluster cannot be reached: {self._unreachable}")
            return self._kube

    def kube_if_reachable(self) -> Kube | None:
        """Return the cluster's API, or None if there is no cluster."""
        try:
            return self.kube()
        except ProviderError:
            return None

    def _probe(self) -> str | None:
        if self.settings is None:
            return "the provider is not configured on this connection"
        try:
            config = read_kubeconfig(self.settings)
            if config is None:
                return "the provider has no kubeconfig"
            kube = Kube(config, pool_size=_POOL_SIZE)
            kube.request("GET", "/version", timeout=_PROBE_SECONDS)
        except (KubeError, InvalidInput) as error:
            return str(error)
        self._kube = kube
        return None


class Sessions:
    """Sessions by connection; sessions of disconnected engines are removed."""

    def __init__(self, connected: Callable[[], set[int]] = connected_ports) -> None:
        """Start without sessions.

        Args:
            connected: returns the ports of the connected engines.
        """
        self._connected = connected
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, peer: str) -> Session:
        """Return the session of a connection; create it if it is new."""
        with self._lock:
            dropped: list[Session] = []
            session = self._sessions.get(peer)
            if session is None:
                dropped = self._drop_gone()
                session = self._sessions[peer] = Session()
            self._sessions.move_to_end(peer)
        for old in dropped:
            old.close()
        return session

    def _drop_gone(self) -> list[Session]:
        """Remove and return the sessions of disconnected engines, and the oldest of too many."""
        ports = self._connected()
        gone = [peer for peer in self._sessions if port_of(peer) not in {None, *ports}]
        gone += [peer for peer in self._sessions if peer not in gone][: -_KEPT + 1]
        return [self._sessions.pop(peer) for peer in gone]
