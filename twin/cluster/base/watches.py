"""Shared watches: one per collection of a cluster, whatever the number of controllers.

Without them, every change of a pod would be sent and parsed once per controller. The objects are
shared; do not change them.
"""

import logging
import queue
import threading
from collections.abc import Iterator

from twin.wire.kube import JsonObject, Kube

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_TICK_SECONDS = 2.0
_Event = tuple[str, JsonObject]


class Watches:
    """The watched collections of one API server."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._lock = threading.Lock()
        self._shared: dict[tuple[str, str | None], _Collection] = {}

    def watch(
        self, path: str, stop: threading.Event, label_selector: str | None = None
    ) -> Iterator[_Event]:
        """Yield the events of `Kube.watch` for a collection from one shared watch.

        A later follower first gets the existing objects as `ADDED`, and a `SYNCED` if they were
        listed.
        """
        with self._lock:
            key = (path, label_selector)
            shared = self._shared.setdefault(key, _Collection(self._kube, *key))
        changes = shared.join(stop)
        try:
            while not stop.is_set():
                try:
                    yield changes.get(timeout=_TICK_SECONDS)
                except queue.Empty:
                    yield "TICK", {}
        finally:
            shared.leave(changes)


class _Halt(threading.Event):
    """Set on request, and when every follower must stop, so that connections end with them."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: tuple[threading.Event, ...] = ()

    def is_set(self) -> bool:
        """Return whether no follower is left."""
        stops = self.stops
        return super().is_set() or (bool(stops) and all(one.is_set() for one in stops))


class _Collection:
    """A collection that is watched while it has followers."""

    def __init__(self, kube: Kube, path: str, label_selector: str | None) -> None:
        self._kube, self._path, self._selector = kube, path, label_selector
        self._lock = threading.Lock()
        self._items: dict[str, JsonObject] = {}
        self._is_synced = False
        self._followers: dict[queue.SimpleQueue[_Event], threading.Event] = {}
        self._halt: _Halt | None = None
        """Ends the running watch; None if none is running."""

    def join(self, stop: threading.Event) -> "queue.SimpleQueue[_Event]":
        """Return a queue with the known objects that receives changes until `stop` is set."""
        changes: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        with self._lock:
            if self._halt is not None and self._halt.is_set():
                self._halt.set()  # a new follower does not wake one that is ending
                self._halt = None
            if self._halt is None:
                self._items, self._is_synced = {}, False
                self._halt = _Halt()
                self._halt.stops = (stop,)
                name = f"watch-{self._path.rsplit('/', 1)[-1]}"
                threading.Thread(
                    target=self._run, args=(self._halt,), name=name, daemon=True
                ).start()
            for item in self._items.values():
                changes.put(("ADDED", item))
            if self._is_synced:
                changes.put(("SYNCED", {}))
            self._followers[changes] = stop
            self._halt.stops = tuple(self._followers.values())
        return changes

    def leave(self, changes: "queue.SimpleQueue[_Event]") -> None:
        """Remove a follower; the last one ends the watch."""
        with self._lock:
            self._followers.pop(changes, None)
            if self._halt is None:
                return
            self._halt.stops = tuple(self._followers.values())
            if not self._followers:
                self._halt.set()
                self._halt = None

    def _run(self, halt: threading.Event) -> None:
        while not halt.is_set():
            fresh: set[str] = set()  # a new watch does not tell what went before it
            try:
                for kind, item in self._kube.watch(self._path, halt, self._selector):
                    if kind == "SYNCED":
                        self._tell_gone(halt, fresh)
                    elif kind != "TICK":
                        fresh.add(item["metadata"]["uid"])
                    if kind != "TICK":
                        self._tell(halt, kind, item)
            except Exception:  # noqa: BLE001 - a watch that died would freeze its followers
                _LOG.exception("watch of %s ended, starting again", self._path)
                halt.wait(_PAUSE_SECONDS)

    def _tell_gone(self, halt: threading.Event, fresh: set[str]) -> None:
        with self._lock:
            gone = [item for uid, item in self._items.items() if uid not in fresh]
        for item in gone:
            self._tell(halt, "DELETED", item)

    def _tell(self, halt: threading.Event, kind: str, item: JsonObject) -> None:
        with self._lock:
            if halt.is_set():  # a newer watch fills what is known
                return
            if kind == "SYNCED":
                self._is_synced = True
            elif kind == "DELETED":
                self._items.pop(item["metadata"]["uid"], None)
            else:
                self._items[item["metadata"]["uid"]] = item
            for follower in self._followers:
                follower.put((kind, item))
