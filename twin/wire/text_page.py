"""A page of metrics for Prometheus, which a part of the twin serves."""

import threading
from collections.abc import Callable

from twin.host.own_callers import OwnHttpServer
from twin.wire.http_answers import Answers


class TextPage:
    """A server whose every path is the page, until `close`."""

    def __init__(self, address: tuple[str, int], name: str, text: Callable[[], str]) -> None:
        """Start to serve.

        Args:
            address: Host and port; port 0 for a free one.
            name: Name of the thread.
            text: Returns the page.

        Raises:
            OSError: The port is in use.
        """

        class Handler(Answers):
            """Answers every GET with the page."""

            protocol_version = "HTTP/1.0"  # no connection stays open behind `close`

            def do_GET(self) -> None:
                """Answer with the page."""
                self.reply(200, "text/plain; version=0.0.4", text().encode())

        self._server = OwnHttpServer(address, Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
