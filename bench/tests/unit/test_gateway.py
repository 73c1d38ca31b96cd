"""The gateway's benchmark: what it asks, what it leaves out, and how figures come from times."""

import http.server
import json
import threading
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from bench.gateway import target
from bench.latency import hop as bench_hop
from bench.latency.hop import AccessLog, Hop, KeepAlive, Pairs, Served, percentiles
from scripts.terminal.console import CommandError
from twin.host.paths import TwinPaths


class Server(http.server.ThreadingHTTPServer):
    """A replica, or a gateway in front of one, that keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.closes_after: set[int] = set()
        """Numbers of requests after which it closes the connection without telling."""
        self.traces: list[str] = []
        self.connections = 0

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every request with the status of its server."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body of an answer in one packet

    @property
    def asked(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def setup(self) -> None:
        super().setup()
        self.asked.connections += 1

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked: Any = json.loads(self.rfile.read(length))
        assert (asked["model"], asked["max_tokens"]) == ("chat", 1)
        self.asked.traces.append(self.headers["traceparent"].split("-")[1])
        self.send_response(self.asked.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = len(self.asked.traces) in self.asked.closes_after

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
        del format, args


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """A replica and a gateway."""
    found = (Server(), Server())
    threads = [threading.Thread(target=one.serve_forever, args=(0.01,)) for one in found]
    for thread in threads:
        thread.start()
    yield found
    for one, thread in zip(found, threads, strict=True):
        one.shutdown()
        thread.join()
        one.server_close()


def pairs(servers: tuple[Server, Server], met: Any = None) -> Pairs:
    """Return what measures two servers; by default, the gateway's requests meet the replica."""
    replica, gateway = servers

    def find(traces: Collection[str]) -> dict[str, Served]:
        found = met(traces) if met else dict.fromkeys(traces, replica.endpoint)
        return {trace: Served(endpoint) for trace, endpoint in found.items()}

    return Pairs(("127.0.0.1", gateway.server_port), {replica.endpoint: "chat"}, find)


def test_percentiles_are_milliseconds():
    assert percentiles([number / 1000 for number in range(101)]) == (50.0, 99.0)


def test_the_hop_is_the_difference_pair_by_pair_and_not_of_the_percentiles():
    # one slow moment of the machine is in both times of a pair, and in no difference
    direct = [0.010, 0.020, 0.500, 0.010, 0.020]
    hop = Hop("127.0.0.1:1", direct, [one + 0.002 for one in direct])
    straight, through, added = hop.rows()
    assert (straight["p50_ms"], through["p50_ms"]) == (20.0, 22.0)
    assert added == {
        "what": "gateway hop (pair by pair)",
        "n": 5,
        "p50_ms": 2.0,
        "p99_ms": 2.0,
        "elsewhere": 0,
        "reconnects": 0,
    }


def test_the_hop_is_shown_as_the_waits_for_its_processors_and_the_rest():
    direct = [0.010, 0.020, 0.030]
    waits = [{"extension/models/router": 0.001, "picker": 0.0005}] * 3
    hop = Hop("127.0.0.1:1", direct, [one + 0.002 for one in direct], waits)
    parts = {row["what"]: row["p50_ms"] for row in hop.rows()[2:]}
    assert parts == {
        "in the hop: router": 1.0,
        "in the hop: picker": 0.5,
        "in the hop: Envoy and connections": 0.5,
        "gateway hop (pair by pair)": 2.0,
    }


@pytest.mark.parametrize(
    ("headers", "body", "response", "seconds"),
    [("400", "500", "100", 0.0006), ("400", None, None, 0.0004), (None, None, None, None)],
)
def test_headers_and_body_of_a_request_are_waited_for_together(headers, body, response, seconds):
    waits = {
        "request_headers_us": headers,
        "request_body_us": body,
        "response_headers_us": response,
    }
    found = bench_hop.waits_of({"processors": {"picker": waits}})
    assert found == ({} if seconds is None else {"picker": pytest.approx(seconds)})


def test_both_ways_are_asked_in_turn_on_one_connection_each(servers):
    replica, gateway = servers
    hop = pairs(servers).measure(10)
    assert (len(hop.direct), len(hop.through)) == (10, 10)
    assert (hop.elsewhere, hop.reconnects) == (0, 0)
    assert (replica.connections, gateway.connections) == (1, 1)
    warm = bench_hop._WARM_UP
    assert (len(replica.traces), len(gateway.traces)) == (warm + 10, warm + 10)


def test_pairs_that_met_another_replica_are_left_out_and_measured_again(servers):
    replica, gateway = servers

    def served(traces: Collection[str]) -> dict[str, str]:
        other = gateway.traces[40:43]  # of pairs 11 to 13
        return {trace: "127.0.0.9:8000" if trace in other else replica.endpoint for trace in traces}

    hop = pairs(servers, served).measure(20)
    assert (len(hop.added), hop.elsewhere) == (20, 3)


def test_a_gateway_that_goes_elsewhere_is_an_error_that_counts(servers):
    replica, gateway = servers

    def served(traces: Collection[str]) -> dict[str, str]:
        first = set(gateway.traces[:1])
        return {trace: replica.endpoint if trace in first else "127.0.0.9:8000" for trace in traces}

    with pytest.raises(CommandError, match=r"^0 of 40 pairs met .*, needed 10: 40 met other repl"):
        pairs(servers, served).measure(10)


def test_a_gateway_that_meets_no_known_replica_is_an_error(servers):
    with pytest.raises(CommandError, match=r"met none of the replicas 127\.0\.0\.1:"):
        pairs(servers, lambda traces: dict.fromkeys(traces, "127.0.0.9:8000")).measure(10)


def test_a_closed_connection_is_opened_again_counted_and_its_pair_left_out(servers):
    _, gateway = servers
    gateway.closes_after = {35, 38}
    hop = pairs(servers).measure(10)
    assert (len(hop.added), hop.reconnects) == (10, 2)
    assert gateway.connections == 3
    assert hop.rows()[-1]["reconnects"] == 2


def test_connections_that_are_closed_again_and_again_are_an_error(servers, monkeypatch):
    _, gateway = servers

    class Rude(Handler):
        def do_POST(self) -> None:
            self.close_connection = True

    monkeypatch.setattr(gateway, "RequestHandlerClass", Rude)
    with pytest.raises(CommandError, match=r"closed 21 connections: .+"):
        pairs(servers).measure(1)


def test_an_address_where_nothing_listens_is_an_error(servers):
    replica, _ = servers
    free = KeepAlive("127.0.0.1", replica.server_port)
    replica.socket.close()
    with pytest.raises(CommandError, match=rf"^127.0.0.1:{replica.server_port}: .*refused"):
        free.ask("GET", "/")


def test_a_refusal_is_an_error_and_no_figure(servers):
    servers[1].status = 503
    with pytest.raises(CommandError, match="HTTP 503"):
        pairs(servers).measure(10)


def test_the_access_log_tells_the_endpoint_of_a_trace_once_its_line_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_hop, "_LOG_SECONDS", 0.2)
    file = tmp_path / "logs" / "gateway-models-main.access.jsonl"
    file.parent.mkdir()
    line = '{"traceparent": "00-%s-01-00", "endpoint": "127.70.0.4:8000"}\n'
    file.write_text(line % "before")
    log = AccessLog(tmp_path)
    assert log.find(["before"]) == {}
    with file.open("a") as handle:
        handle.write(
            (line % "one") + '{"traceparent": null, "endpoint": "-"}\n' + (line % "two")[:30]
        )
    assert log.find(["one", "two"]) == {"one": Served("127.70.0.4:8000")}
    with file.open("a") as handle:
        handle.write((line % "two")[30:])
    assert log.find(["one", "two"]) == dict.fromkeys(("one", "two"), Served("127.70.0.4:8000"))


def test_a_twin_without_a_gateway_is_told_what_to_do(tmp_path):
    with pytest.raises(CommandError, match="run make up first"):
        target(TwinPaths(tmp_path))
