"""The watched objects of one cluster."""

import logging
import threading
from dataclasses import dataclass, field

from twin.cluster.base.watches import Watches
from twin.cluster.gateway.translation.objects import WATCHED, JsonObject, Key, key_of, traits

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


@dataclass
class Store:
    """The watched objects, and whether a relevant change happened."""

    objects: dict[str, dict[Key, JsonObject]] = field(
        default_factory=lambda: {kind: {} for kind in WATCHED}
    )
    synced: set[str] = field(default_factory=set[str])
    """Kinds whose listing is complete."""
    changed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, kind: str, obj: JsonObject) -> None:
        """Store the current state of an object."""
        key = key_of(obj)
        obj.setdefault("kind", kind)
        with self.lock:
            known = self.objects[kind].get(key)
            self.objects[kind][key] = obj
        if known is None or traits(kind, known) != traits(kind, obj):
            self.changed.set()

    def drop(self, kind: str, obj: JsonObject) -> None:
        """Remove a deleted object, unless a new one has its name."""
        key = key_of(obj)
        with self.lock:
            known = self.objects[kind].get(key)
            if known is None or known["metadata"]["uid"] != obj["metadata"]["uid"]:
                return
            del self.objects[kind][key]
        self.changed.set()

    def keep(self, kind: str, keys: set[Key]) -> None:
        """Keep only the listed objects of a kind."""
        with self.lock:
            gone = self.objects[kind].keys() - keys
            for key in gone:
                del self.objects[kind][key]
            first = kind not in self.synced
            self.synced.add(kind)
        if gone or first:
            self.changed.set()

    def copy(self) -> dict[str, dict[Key, JsonObject]]:
        """Return a snapshot of the objects."""
        with self.lock:
            return {kind: dict(found) for kind, found in self.objects.items()}


def watch_all(watches: Watches, store: Store, stop: threading.Event) -> None:
    """Fill a store until `stop` is set, with one thread per kind."""
    for kind, path in WATCHED.items():
        threading.Thread(
            target=_watch, args=(watches, store, kind, path, stop), daemon=True, name=f"gw-{kind}"
        ).start()


def _watch(watches: Watches, store: Store, kind: str, path: str, stop: threading.Event) -> None:
    while not stop.is_set():
        listed: set[Key] | None = set()  # None: the list is complete
        try:
            for event, obj in watches.watch(path, stop):
                if event == "SYNCED":
                    if listed is not None:
                        store.keep(kind, listed)
                    listed = None
                elif event == "DELETED":
                    store.drop(kind, obj)
                elif event != "TICK":
                    store.put(kind, obj)
                    if listed is not None:
                        listed.add(key_of(obj))
        except Exception:  # noqa: BLE001  (a watch that died would freeze every gateway)
            if not stop.is_set():
                _log.exception("watch of %s ended, starting again", kind)
            stop.wait(_PAUSE_SECONDS)
