"""Variables of an engine that are secrets of Secret Manager."""

import base64
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from workloads.engine.secret_values import SecretError, read

SECRET = "projects/acme/secrets/hf-token"


class SecretManager(http.server.BaseHTTPRequestHandler):
    """Secret Manager with one secret."""

    def do_GET(self) -> None:
        if self.path != f"/v1/{SECRET}/versions/latest:access":
            self.send_error(403)
            return
        data = base64.b64encode(b"hf_$(x)\n").decode()
        body = json.dumps({"name": SECRET, "payload": {"data": data}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Log nothing."""


@pytest.fixture(autouse=True)
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SecretManager)
    monkeypatch.setenv("SECRET_MANAGER_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield
    server.shutdown()
    server.server_close()


def test_the_latest_version_of_a_secret_is_the_variable_as_it_was_stored():
    assert read({"HF_TOKEN": SECRET}) == {"HF_TOKEN": "hf_$(x)\n"}
    assert read({}) == {}


def test_a_secret_that_may_not_be_read_is_named_with_the_reason():
    with pytest.raises(SecretError) as refused:
        read({"HF_TOKEN": "projects/acme/secrets/other"})
    said = "HF_TOKEN: projects/acme/secrets/other cannot be read: status 403"
    assert str(refused.value) == said
