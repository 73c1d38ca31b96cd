"""A collection of the API server, kept in memory by a watch."""

import threading

from twin.kube import JsonObject, Kube


class Informer:
    """The objects of one collection; `wake` is set whenever one changes."""

    def __init__(
        self,
        kube: Kube,
        path: str,
        wake: threading.Event,
        label_selector: str | None = None,
    ) -> None:
        self._kube = kube
        self._path = path
        self._wake = wake
        self._selector = label_selector
        self._items: dict[str, JsonObject] = {}
        self._lock = threading.Lock()
        self.synced = threading.Event()
        """Set once the first listing is complete."""

    def start(self, stop: threading.Event) -> None:
        """Watch in a thread of its own until `stop` is set."""
        name = self._path.rsplit("/", 1)[-1]
        threading.Thread(target=self._run, args=(stop,), name=f"watch-{name}", daemon=True).start()

    def _run(self, stop: threading.Event) -> None:
        for kind, item in self._kube.watch(self._path, stop, self._selector):
            if kind == "SYNCED":
                self.synced.set()
            elif kind == "TICK":
                continue
            else:
                uid = item["metadata"]["uid"]
                with self._lock:
                    if kind == "DELETED":
                        self._items.pop(uid, None)
                    else:
                        self._items[uid] = item
            self._wake.set()

    def items(self) -> list[JsonObject]:
        """Return the objects as they were last seen; they must not be changed."""
        with self._lock:
            return list(self._items.values())
