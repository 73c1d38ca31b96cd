"""Host names of stacks on the twin."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.operate.ask import endpoint_of
from scripts.shared import hosts
from scripts.shared.model_client import models
from simulator.traffic import Options, Prompt, Trace, TraceEntry, run
from twin.cluster.gateway.translation.certificates import managed_certificate
from twin.host.paths import TwinPaths
from twin.host.pki import make_twin_pki

HOST, ADDRESS = "models.example.com", "127.32.253.1"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(hosts, "_known", {})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[TwinPaths, str]]:
    """A gateway with a certificate of the twin; its paths, and its URL by the host's name."""
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    make_twin_pki(paths)
    made = managed_certificate(paths.pki / "ca", tmp_path, "models", HOST, ADDRESS)
    file = tmp_path / "server.pem"
    file.write_text(made.key + made.chain)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"object": "list", "data": [{"id": self.headers["Host"]}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.send_error(429)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    found = ThreadingHTTPServer((ADDRESS, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    found.socket = context.wrap_socket(found.socket, server_side=True)
    threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True).start()
    yield paths, f"https://{HOST}:{found.server_port}"
    found.shutdown()
    found.server_close()


def test_a_host_of_the_twin_leads_to_its_front_under_its_own_name(server):
    paths, url = server
    hosts.lead({"endpoint": url, "front": ADDRESS, "addresses": {"r": "10.0.0.1"}}, paths.ca_bundle)
    (asked,) = models(url)
    assert asked.partition(":")[0] == HOST


def test_without_a_front_it_leads_to_the_gateway_of_the_first_region(server):
    paths, url = server
    hosts.lead({"endpoint": url, "addresses": {"r": ADDRESS, "s": "127.0.0.9"}}, paths.ca_bundle)
    known = hosts.host_of(url)
    assert known is not None
    assert known.address == ADDRESS


def test_an_endpoint_that_is_an_address_needs_no_name():
    hosts.lead({"endpoint": "http://127.0.0.1:8080", "addresses": {"r": "127.0.0.1"}}, Path("ca"))
    assert hosts.host_of("http://127.0.0.1:8080") is None


def test_later_commands_find_the_host_again(server, tmp_path, monkeypatch):
    paths, url = server
    folder = tmp_path / "build" / "three"
    folder.mkdir(parents=True)
    (folder / "endpoint").write_text(url + "\n")
    hosts.lead({"endpoint": url, "front": ADDRESS}, paths.ca_bundle)
    hosts.save(url, folder / "address")
    monkeypatch.setattr(hosts, "_known", {})
    assert endpoint_of("three", tmp_path / "build") == url
    assert models(url)


def test_traffic_reaches_a_host_of_the_twin(server):
    paths, url = server
    known = hosts.Host(ADDRESS, paths.ca_bundle)
    trace = Trace.merge("one", [TraceEntry(0.0, "chat", Prompt("hello"), 1, stream=False)])
    report = run(trace, url, Options(address=known.address, tls=known.context()))
    assert report.summary().refused == 1  # 429, by the server that only the address leads to
