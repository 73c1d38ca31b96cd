"""Where calibration gets its series: a server with a token, or Managed Prometheus."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials
from typer.testing import CliRunner

from scripts.app import build_app
from scripts.calibrate.sources import Server, history_of, server_of
from scripts.shared.google_clients import plain_errors
from scripts.shared.google_cloud import Cloud, CloudError, ReadOnly
from scripts.terminal.console import CommandError
from tests.unit.bootstrap.fake_google import PROJECT, FakeGoogle, refused
from twin.cluster.monitoring.promql import QueryError, Series

MATRIX = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [{"metric": {"pod": "a"}, "values": [[1.0, "2"], [16.0, "5"]]}],
    },
}
FOUND = [Series({"pod": "a"}, ((1.0, 2.0), (16.0, 5.0)))]
PATH = f"monitoring.googleapis.com/v1/projects/{PROJECT}/location/global/prometheus/api/v1"


class Prometheus(ThreadingHTTPServer):
    """Answers queries of clients with a token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, str] = (200, json.dumps(MATRIX))
        self.token: str | None = None
        self.queries: list[tuple[str, str]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Prometheus  # pyrefly: ignore[bad-override-mutable-attribute] - narrower

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.queries.append((self.path, parse_qs(body)["query"][0]))
        given = self.headers["authorization"]
        is_known = self.server.token is None or given == f"Bearer {self.server.token}"
        status, text = self.server.answer if is_known else (401, "Unauthorized\n")
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    server = Prometheus()
    yield server
    server.shutdown()
    server.server_close()


def test_a_server_below_a_path_answers_a_client_with_the_token_of_a_file(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    prometheus.token = "secret"

    server = server_of(f"{prometheus.url}/team/", file, None)

    assert server.history("up", 0, 60, 15) == FOUND
    assert prometheus.queries == [("/team/api/v1/query_range", "up")]
    assert "secret" not in repr(server)


def test_the_token_may_be_in_the_environment(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    prometheus.token = "other"
    monkeypatch.setenv("GKE_INFERENCE_PROMETHEUS_TOKEN", "other")
    assert server_of(prometheus.url, None, None).history("up", 0, 60, 15) == FOUND


BAD = json.dumps({"status": "error", "errorType": "bad_data", "error": "1:1: parse error"})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((400, BAD), r"status 400: 1:1: parse error"),
        ((401, "Unauthorized\n"), r"status 401: Unauthorized"),
        ((302, ""), r"status 302$"),
        ((200, "<html>"), r"must be a Prometheus server, got '<html>'"),
        ((200, '{"data": {"result": [{}]}}'), r"must be a Prometheus server, got"),
    ],
)
def test_a_refusal_of_a_server_is_one_line(
    prometheus: Prometheus, answer: tuple[int, str], message: str
) -> None:
    prometheus.answer = answer
    with pytest.raises(QueryError, match=message) as error:
        Server(prometheus.url).history("up", 0, 60, 15)
    assert "\n" not in str(error.value)


def test_a_server_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(QueryError, match=r"http://127.0.0.1:9: .*refused"):
        Server("http://127.0.0.1:9").history("up", 0, 60, 15)


@pytest.mark.parametrize("url", ["ftp:x", "http://[::1", "h:9090", "http://u@h", "http://h?x=1"])
def test_an_address_that_is_no_server_is_one_line(url: str) -> None:
    with pytest.raises(CommandError, match=r"--prometheus: must be http\(s\)://HOST"):
        server_of(url, None, None)


def test_options_of_a_server_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("two words")
    with pytest.raises(CommandError, match="--token-file: must be one word of ASCII, got 9 char"):
        server_of("https://h", file, None)
    file.write_text("secret")
    with pytest.raises(
        CommandError, match=r"--prometheus: must be https with a token, .*'http://h"
    ):
        server_of("http://h", file, None)
    with pytest.raises(CommandError, match="--ca-file: must be omitted without https"):
        server_of("http://h", None, file)
    with pytest.raises(CommandError, match="--ca-file: must be a readable file, got '/no/such"):
        server_of("https://h", None, Path("/no/such"))
    assert server_of("https://h/p/", file, file).url == "https://h/p"


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    fake = FakeGoogle()
    fake.services |= {"monitoring.googleapis.com"}
    yield fake
    fake.close()


def cloud_of(google: FakeGoogle) -> Cloud:
    session: Any = AuthorizedSession(Credentials("token"))
    return Cloud(PROJECT, ReadOnly(session), f"{google.address}/")


def test_managed_prometheus_is_asked_in_the_project_with_the_callers_credentials(
    google: FakeGoogle,
) -> None:
    google.resources = {f"{PATH}/query_range": MATRIX}
    assert history_of(cloud_of(google))("up", 0, 60, 15) == FOUND
    assert google.calls == [("GET", f"{PATH}/query_range")]


_PARSE = {"status": "error", "errorType": "bad_data", "error": "invalid parameter 'query'"}
QUOTA = "Quota exceeded for quota metric 'Time series queries'"


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (
            refused(401, "Request had invalid authentication credentials."),
            "the credentials do not wo",
        ),
        (refused(403, "Permission monitoring.timeSeries.list denied"), "monitoring.timeSeries.li"),
        (refused(429, QUOTA, "RATE_LIMIT_EXCEEDED"), f"answered 429: {QUOTA}"),
        ((400, _PARSE), "answered 400: invalid parameter 'query'"),
    ],
)
def test_a_refusal_of_managed_prometheus_is_one_line(
    google: FakeGoogle, refusal: tuple[int, dict[str, Any]], message: str
) -> None:
    google.refusals = {PATH: refusal}
    with pytest.raises(CloudError, match=message), plain_errors():
        history_of(cloud_of(google))("up", 0, 60, 15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--stack: is required, or --prometheus with --model and --accelerator"),
        (["--prometheus", "http://127.0.0.1:9"], "--model: is required without --stack"),
        (["--stack", "local", "--model", "m"], "--model: must be omitted with --stack, got 'm'"),
        (["--stack", "local", "--matchers", "a"], "--matchers: must be omitted without --prom"),
        (["--stack", "nope"], "--stack: must be one of"),
    ],
)
def test_options_that_do_not_fit_together_are_one_line(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(build_app(("calibrate",)), ["calibrate", *arguments])
    assert isinstance(result.exception, CommandError)
    assert str(result.exception).startswith(message)
