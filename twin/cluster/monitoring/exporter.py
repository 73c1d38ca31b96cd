"""Serves the kube-state series of one cluster to its Prometheus."""

import threading
from http.server import ThreadingHTTPServer

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.informer import Informer
from twin.cluster.monitoring import kube_state
from twin.wire.http_answers import Answers
from twin.wire.kube import JsonObject

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"


class KubeStateExporter:
    """An HTTP server on loopback, over informers."""

    def __init__(self, ctx: ClusterContext, pods: Informer) -> None:
        quiet = threading.Event()  # a scrape reads what is there, nothing has to wake
        self._own = {
            kind: Informer(ctx.watches, path, quiet)
            for kind, (path, _) in kube_state.COLLECTIONS.items()
            if kind != "Pod"
        }
        self._informers = {"Pod": pods, **self._own}
        self._rows: dict[str, tuple[str, list[kube_state.Row]]] = {}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.exporter = self

    @property
    def address(self) -> str:
        """Host and port it listens on."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def start(self, stop: threading.Event) -> None:
        """Watch and serve until `stop` is set."""
        for informer in self._own.values():
            informer.start(stop)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="kube-state").start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def page(self) -> str:
        """Return the metrics page; what did not change since the last one is not made again."""
        rows: dict[str, tuple[str, list[kube_state.Row]]] = {}
        for kind, informer in self._informers.items():
            for obj in informer.items():
                metadata: JsonObject = obj["metadata"]
                uid, version = str(metadata["uid"]), str(metadata.get("resourceVersion", ""))
                known = self._rows.get(uid)
                if known is None or known[0] != version:
                    known = (version, kube_state.rows_of(kind, obj))
                rows[uid] = known
        self._rows = rows
        return kube_state.page(row for _, made in rows.values() for row in made)


class _Server(ThreadingHTTPServer):
    exporter: KubeStateExporter


class _Handler(Answers):
    def do_GET(self) -> None:
        server = self.server
        if not isinstance(server, _Server):
            raise TypeError("served by another kind of server")
        found = self.path == PATH
        data = server.exporter.page().encode() if found else b"not found\n"
        self.reply(200 if found else 404, _CONTENT_TYPE, data)
