"""Who may call the twin's servers on loopback: programs of its user, and no web page."""

import http.client
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import grpc
import pytest

from twin.host import own_callers
from twin.host.own_callers import OwnHttpServer, is_own, page_problem, uid_of_caller
from twin.host.paths import TwinPaths
from twin.providers.gcp.bigquery import server as bigquery
from twin.providers.gcp.effects import secret_manager
from twin.providers.gcp.endpoints import server as endpoint
from twin.providers.gcp.signed import server as signed_urls
from twin.wire.own_grpc_callers import OwnCallers

_NOBODY = 65_534


class _Handler(BaseHTTPRequestHandler):
    any_host = ("/check/",)

    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format, *args):  # noqa: A002 - its name
        del format, args


@pytest.fixture
def serving():
    running = []

    def start(server):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return server.server_address

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def pair():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as caller,
    ):
        yield caller.getsockname(), server.getsockname()


def ask(address, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    except (http.client.RemoteDisconnected, ConnectionResetError):
        return None
    finally:
        connection.close()


# what it imports cannot be read by every user
_ASKING = """
import encodings.idna, http.client, os, sys
os.setuid(int(sys.argv[1]))
connection = http.client.HTTPConnection(sys.argv[2], int(sys.argv[3]), timeout=10)
try:
    connection.request("GET", sys.argv[4])
    print(connection.getresponse().status)
except (http.client.RemoteDisconnected, ConnectionResetError):
    print("none")
"""


def ask_as_nobody(address, path="/"):
    arguments = [str(_NOBODY), address[0], str(address[1]), path]
    return subprocess.run(
        [sys.executable, "-c", _ASKING, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def test_the_kernel_names_the_user_behind_a_connection(pair):
    assert uid_of_caller(*pair) == os.getuid()
    assert is_own(*pair)


def test_the_user_is_also_found_without_the_kernels_query(pair, monkeypatch):
    def unsupported(*_):
        raise OSError("sock_diag: not supported")

    monkeypatch.setattr(own_callers, "_asked", unsupported)
    assert uid_of_caller(*pair) == os.getuid()


def test_a_caller_that_is_gone_is_nobodys(pair):
    assert uid_of_caller(("127.0.0.1", 1), pair[1]) is None
    assert not is_own(("127.0.0.1", 1), pair[1])


@pytest.mark.parametrize("way", ["_asked", "_listed"])
def test_a_caller_that_has_closed_its_socket_is_nobodys_and_not_root(way):
    find = getattr(own_callers, way)
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        ends = caller.getsockname(), server.getsockname()
        accepted, _ = server.accept()
        with accepted:
            assert find(*ends) == os.getuid()
            caller.sendall(b"POST / HTTP/1.1")
            caller.close()
            assert find(*ends) is None


@needs_root
def test_a_program_of_another_user_gets_no_answer(serving):
    address = serving(OwnHttpServer(("127.0.0.1", 0), _Handler))
    assert ask_as_nobody(address) == "none"
    assert ask(address) == 204


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({}, None),
        ({"Host": "127.0.0.1:8080"}, None),
        ({"Host": "127.36.0.5"}, None),
        ({"Host": "[::1]:8080"}, None),
        ({"Host": "localhost:8080"}, None),
        ({"Host": "evil.example:8080"}, "Host must be a loopback address, got evil.example:8080"),
        (
            {"Host": "127.0.0.1.evil.example"},
            "Host must be a loopback address, got 127.0.0.1.evil.example",
        ),
        ({"Host": "10.0.0.1:80"}, "Host must be a loopback address, got 10.0.0.1:80"),
        (
            {"Host": "127.0.0.1", "Origin": "https://evil.example"},
            "requests of web pages are not answered (Origin https://evil.example)",
        ),
        ({"Origin": "null"}, "requests of web pages are not answered (Origin null)"),
    ],
)
def test_what_a_web_page_can_send_has_a_problem(headers, problem):
    assert page_problem(headers) == problem


def test_a_web_page_gets_no_answer(serving):
    address = serving(OwnHttpServer(("127.0.0.1", 0), _Handler))
    assert ask(address, method="POST", origin="https://evil.example") == 403
    assert ask(address, host="evil.example") == 403
    assert ask(address) == 204


def test_a_path_that_envoy_calls_takes_the_host_name_of_its_client(serving):
    address = serving(OwnHttpServer(("127.0.0.1", 0), _Handler))
    assert ask(address, "/check/x", Host="chat.example") == 204
    assert ask(address, "/other", Host="chat.example") == 403
    assert ask(address, "/check/x", Origin="https://evil.example") == 403


_SERVERS = {
    "bigquery": bigquery.serve,
    "endpoint": endpoint.serve,
    "secret-manager": secret_manager.serve,
    "signed-urls": signed_urls.serve,
}


@pytest.mark.parametrize("serve", _SERVERS.values(), ids=_SERVERS)
def test_a_server_of_the_simulated_cloud_refuses_pages_and_other_users(serve, serving, tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    address = serving(serve(paths, 0))
    path = "/unknown"
    assert ask(address, path, host="evil.example") == 403
    assert ask(address, path, "POST", origin="https://evil.example") == 403
    assert ask(address, path) in (400, 401, 404)
    if os.getuid() == 0:
        assert ask_as_nobody(address, path) == "none"


def _called(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/twin.Test/Call")
        try:
            return call(b"asked", timeout=10).decode()
        except grpc.RpcError as error:
            return error.code().name


@pytest.fixture
def grpc_port():
    callers = OwnCallers()
    server = grpc.server(ThreadPoolExecutor(2), interceptors=[callers])
    method = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"answered")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("twin.Test", {"Call": method}),)
    )
    callers.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield callers.port
    server.stop(0)


def test_a_provider_answers_programs_of_its_user(grpc_port):
    assert _called(grpc_port) == "answered"


def test_a_provider_refuses_programs_of_other_users(grpc_port, monkeypatch):
    monkeypatch.setattr(own_callers, "uid_of_caller", lambda _caller, _server: _NOBODY)
    assert _called(grpc_port) == "PERMISSION_DENIED"
