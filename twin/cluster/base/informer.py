"""An in-memory copy of an API server collection, updated by a watch."""

import logging
import threading

from twin.cluster.base.watches import Watches
from twin.wire.kube import JsonObject

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


class Informer:
    """The objects of one collection; `wake` is set whenever one changes."""

    def __init__(
        self,
        watches: Watches,
        path: str,
        wake: threading.Event,
        label_selector: str | None = None,
    ) -> None:
        self._watches = watches
        self._path = path
        self._wake = wake
        self._selector = label_selector
        self._items: dict[str, JsonObject] = {}
        self._lock = threading.Lock()
        self.synced = threading.Event()
        """Set once the first listing is complete."""

    def start(self, stop: threading.Event) -> None:
        """Watch in a separate thread until `stop` is set."""
        name = self._path.rsplit("/", 1)[-1]
        threading.Thread(target=self._run, args=(stop,), name=f"watch-{name}", daemon=True).start()

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._follow(stop)
            except Exception:  # noqa: BLE001 - a watch that died would freeze its controller
                _LOG.exception("watch of %s ended, starting again", self._path)
                stop.wait(_PAUSE_SECONDS)

    def _follow(self, stop: threading.Event) -> None:
        fresh: set[str] | None = set()
        for kind, item in self._watches.watch(self._path, stop, self._selector):
            if kind == "TICK":
                continue
            if kind == "SYNCED":
                with self._lock:
                    if fresh is not None:  # a new watch does not tell what went before it
                        self._items = {uid: self._items[uid] for uid in fresh}
                fresh = None
                self.synced.set()
            else:
                uid = item["metadata"]["uid"]
                with self._lock:
                    if kind == "DELETED":
                        self._items.pop(uid, None)
                    else:
                        self._items[uid] = item
                if fresh is not None:
                    fresh.add(uid)
            self._wake.set()

    def items(self) -> list[JsonObject]:
        """Return the objects as last seen. Do not change them."""
        with self._lock:
            return list(self._items.values())
