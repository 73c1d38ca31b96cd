"""The gateway's benchmark: what it asks, and how figures come from times."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from scripts import bench_gateway
from scripts.bench_gateway import Target, hop, percentiles, target
from scripts.console import CommandError
from twin.host.paths import TwinPaths


class Replica(http.server.BaseHTTPRequestHandler):
    """Answers every request with the status of its server."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked: Any = json.loads(self.rfile.read(length))
        assert (asked["model"], asked["max_tokens"]) == ("chat", 1)
        self.send_response(getattr(self.server, "status", 200))
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
        del format, args


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Replica)
    found.daemon_threads = True
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def at(server: http.server.ThreadingHTTPServer) -> Target:
    port = server.server_port
    nothing: Any = None
    return Target(nothing, "models", "gw", "127.0.0.1", port, "127.0.0.1", port, "chat")


def test_percentiles_are_milliseconds():
    assert percentiles([number / 1000 for number in range(101)]) == (50.0, 99.0)


def test_the_hop_is_the_difference_of_two_ways_to_one_replica(server, monkeypatch):
    monkeypatch.setattr(bench_gateway, "_REQUESTS", 10)
    direct, through, added = hop(at(server))
    assert added["p50_ms"] == round(through["p50_ms"] - direct["p50_ms"], 2)
    assert {row["n"] for row in (direct, through, added)} == {10}


def test_a_refusal_is_an_error_and_no_figure(server):
    server.status = 503
    with pytest.raises(CommandError, match="HTTP 503"):
        hop(at(server))


def test_a_twin_without_a_gateway_is_told_what_to_do(tmp_path):
    with pytest.raises(CommandError, match="run make up first"):
        target(TwinPaths(tmp_path))
