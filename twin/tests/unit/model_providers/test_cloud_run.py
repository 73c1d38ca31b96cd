"""Services on Cloud Run: who may call them, and what an instance gets of a request."""

import http.client
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from twin.model_providers.dialects import Grants, id_token
from twin.model_providers.server import Providers, serve
from twin.world.run_services import SERVICE, Place, note_place, place_at
from twin.world.store import Store, new_record

HOST = "app-1.us-east5.run.app"
ACCOUNT = "app@acme.iam.gserviceaccount.com"


class _Instance(http.server.BaseHTTPRequestHandler):
    seconds = 0.0

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        threading.Event().wait(self.seconds)
        content = f"{self.command} {self.path} {body.decode()} {self.headers['Host']}".encode()
        self.send_response(201)
        self.send_header("Content-Type", "text/x-own")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "7")
        for color in self.headers.get_all("X-Color") or []:
            self.send_header("Set-Cookie", color)
        self.send_header("X-Hop", "of the instance")
        self.send_header("Connection", "close, X-Hop")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_DELETE = do_GET = do_HEAD = do_OPTIONS = do_PATCH = do_POST = do_PUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        del format, args


@pytest.fixture
def instance() -> Iterator[http.server.ThreadingHTTPServer]:
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Instance)
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def ask(instance: http.server.ThreadingHTTPServer) -> Iterator[Any]:
    """Return a caller; the service is at the address of the instance, for a second."""
    place = Place("127.0.0.1", instance.server_address[1], 1, 1.0)
    grants = Grants(lambda _: False, lambda _: False, lambda host, who: who == ACCOUNT)
    front = serve(Providers(grants, lambda host: place if host == HOST else None), 0)
    threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True).start()

    def call(
        token: str, method: str = "PUT", body: bytes = b"x", **headers: str
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", front.server_address[1], timeout=10)
        given = {"Host": HOST, "Authorization": f"Bearer {token}", **headers}
        connection.request(method, "/v1/users/a?b=c", body=body, headers=given)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    made: Any = call
    made.port = front.server_address[1]
    yield made
    front.shutdown()
    front.server_close()


def test_an_invoker_with_a_token_for_the_service_is_passed_on(ask: Any) -> None:
    token = id_token(f"https://{HOST}", ACCOUNT)
    assert ask(token) == (201, f"PUT /v1/users/a?b=c x {HOST}")
    assert ask(token, "DELETE", b"")[1] == f"DELETE /v1/users/a?b=c  {HOST}"


@pytest.fixture
def connection(ask: Any) -> Iterator[http.client.HTTPConnection]:
    found = http.client.HTTPConnection("127.0.0.1", ask.port, timeout=10)
    yield found
    found.close()


def own(**headers: str) -> dict[str, str]:
    token = id_token(f"https://{HOST}", ACCOUNT)
    return {"Host": HOST, "Authorization": f"Bearer {token}", **headers}


def test_headers_pass_both_ways_except_those_of_a_connection(
    connection: http.client.HTTPConnection,
) -> None:
    connection.putrequest("PATCH", "/", skip_host=True)
    for name, value in (*own().items(), ("X-Color", "a=red"), ("X-Color", "b=blue")):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.read().startswith(b"PATCH / ")
    assert (answer.headers["Content-Type"], answer.headers["Retry-After"]) == ("text/x-own", "7")
    assert answer.headers.get_all("Set-Cookie") == ["a=red", "b=blue"]
    assert len(answer.headers.get_all("Date") or []) == 1
    assert (answer.headers["X-Hop"], answer.headers["Connection"]) == (None, None)


def test_an_answer_to_head_has_a_length_and_no_body(
    connection: http.client.HTTPConnection,
) -> None:
    for _ in range(2):  # a body would be taken for the next answer
        connection.request("HEAD", "/", headers=own())
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (201, b"")
        assert int(answer.headers["Content-Length"]) > 0


def test_a_chunked_body_arrives_whole(connection: http.client.HTTPConnection) -> None:
    for _ in range(2):
        connection.request("POST", "/", body=iter([b"on the ", b"moon"]), headers=own())
        assert connection.getresponse().read() == f"POST / on the moon {HOST}".encode()


def test_an_overlong_and_a_malformed_chunked_body_are_refused(
    connection: http.client.HTTPConnection,
) -> None:
    connection.request("POST", "/", body=iter([bytes(2**20)] * 33), headers=own())
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (413, b"Request Entity Too Large")
    for body in (b"x\r\n", b"-1\r\n", b"2\r\nabc\r\n0\r\n\r\n"):
        connection.request("POST", "/", body=body, headers=own(**{"Transfer-Encoding": "chunked"}))
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (400, b"Bad Request")
        connection.close()


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("", 401),
        (id_token("https://other-1.us-east5.run.app", ACCOUNT), 401),
        (id_token(f"https://{HOST}", "other@acme.iam.gserviceaccount.com"), 403),
    ],
)
def test_anybody_else_is_refused(ask: Any, token: str, status: int) -> None:
    for method in ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"):
        assert ask(token, method)[0] == status


def test_a_slow_an_ended_and_an_overlong_request_get_cloud_runs_errors(
    ask: Any, instance: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = id_token(f"https://{HOST}", ACCOUNT)
    assert ask(token, body=bytes(32 * 2**20 + 1))[0] == 413
    with monkeypatch.context() as slow:
        slow.setattr(_Instance, "seconds", 2.0)
        assert ask(token)[0] == 504
    instance.shutdown()
    instance.server_close()
    assert ask(token)[0] == 503


def test_a_host_is_that_of_a_service_with_an_instance(tmp_path: Any) -> None:
    store = Store(tmp_path / "cloud.db")
    for name in ("app", "idle"):
        outputs = {"uri": f"https://{name}-1.us-east5.run.app"}
        store.add(new_record(SERVICE, name, name, "acme", "urn", {}, outputs), [])
    place = Place("127.37.0.1", 8080, 1, 60.0)
    note_place(store, "app", place)
    assert place_at(store, HOST) == place
    assert place_at(store, "idle-1.us-east5.run.app") is None
    assert place_at(store, "app-2.us-east5.run.app") is None
