"""Uptime checks of the twin's cloud, against a plain server."""

import http.server
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.gateway.translation.certificates import managed_certificate
from twin.cluster.monitoring.gateways import uptime_address
from twin.front import uptime
from twin.front.uptime import Check, Seen, Uptime, checks, look
from twin.host.pki import make_authority
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, without_waits
from twin.world.nearness import CLIENT_REGION

HOST = "models.example.com"
EVERYWHERE = [
    "usa-oregon",
    "usa-iowa",
    "usa-virginia",
    "eur-belgium",
    "sa-brazil-sao_paulo",
    "apac-singapore",
]


class Server:
    """A web server whose status a test sets."""

    def __init__(self) -> None:
        self.status = 200
        self.asked: list[tuple[str, str, str | None]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.close_connection = True
                outer.asked.append((self.path, self.headers["Host"], self.headers[CLIENT_REGION]))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def encrypt(self, chain: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, chain.with_suffix(".key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(without_waits(tmp_path / "twin"))


def declare(cloud: Cloud, port: int, **http_check: Any) -> Check:
    """Create a check and its host's record, and return what the twin runs."""
    cloud.create(
        uptime.CHECK,
        "endpoint",
        {
            "displayName": "endpoint",
            "httpCheck": {"path": "/healthz", "port": port, **http_check},
            "monitoredResource": {
                "labels": {"host": HOST, "project_id": PROJECT},
                "type": "uptime_url",
            },
            "period": "60s",
            "project": PROJECT,
            "timeout": "10s",
        },
    )
    (found,) = checks(cloud.world.store.all())
    return found


def test_a_check_passes_with_2xx_alone_unless_it_accepts_another_status(cloud, server) -> None:
    check = declare(cloud, server.port)
    assert [name for name, _ in check.checkers] == EVERYWHERE
    seen = {}
    for status in (200, 204, 301, 401, 503):
        server.status = status
        seen[status] = look(check, "127.0.0.1", "us-west1", "").is_passed
    assert seen == {200: True, 204: True, 301: False, 401: False, 503: False}
    assert server.asked[0] == ("/healthz", HOST, "us-west1")


def test_a_check_that_accepts_401_passes_with_it_and_not_with_200(cloud, server) -> None:
    check = declare(cloud, server.port, acceptedResponseStatusCodes=[{"statusValue": 401}])
    assert not look(check, "127.0.0.1", "us-west1", "").is_passed
    server.status = 401
    assert look(check, "127.0.0.1", "us-west1", "").is_passed


def test_a_validated_check_needs_a_trusted_certificate_with_the_hosts_name(
    cloud, server, tmp_path
) -> None:
    make_authority(tmp_path, "ca")
    authority, trusted = tmp_path / "ca", str(tmp_path / "ca.crt")
    managed_certificate(authority, tmp_path, "own", HOST, "127.0.0.1")
    server.encrypt(tmp_path / f"own--{HOST}.crt")
    check = declare(cloud, server.port, useSsl=True, validateSsl=True)
    seen = look(check, "127.0.0.1", "us-west1", trusted)
    assert seen.is_passed
    assert seen.expires_days is not None
    assert round(seen.expires_days) == 90
    other = replace(check, host="other.example.com")
    assert look(other, "127.0.0.1", "us-west1", trusted) == Seen(is_passed=False)
    make_authority(tmp_path, "another")
    assert look(check, "127.0.0.1", "us-west1", str(tmp_path / "another.crt")) == Seen(
        is_passed=False
    )


def test_each_location_writes_the_series_that_alerts_read_and_a_host_without_a_record_fails(
    cloud, server, request
) -> None:
    declare(cloud, server.port)
    assert uptime_address(cloud.paths) is None
    cloud.paths.settings_file.write_text('{"speed": 1}')
    prober = Uptime(cloud.paths)
    request.addfinalizer(prober.close)
    prober.round(0.0)
    lines = prober.page().splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["0"] * 6
    zone = {"dnsName": "example.com.", "name": "example-com", "visibility": "public"}
    cloud.create("gcp:dns/managedZone:ManagedZone", "example-com", zone)
    cloud.create(
        "gcp:dns/recordSet:RecordSet",
        "models",
        {
            "managedZone": "example-com",
            "name": f"{HOST}.",
            "rrdatas": ["127.0.0.1"],
            "ttl": 30,
            "type": "A",
        },
    )
    prober.round(30.0)
    assert prober.page().splitlines() == lines, "the period is a minute"
    prober.round(60.0)
    first = prober.page().splitlines()[0]
    name, _, rest = first.partition("{")
    assert name == "monitoring_googleapis_com:uptime_check_check_passed"
    assert f'checker_location="usa-oregon",host="{HOST}",project_id="{PROJECT}"}} 1' in rest
    assert uptime_address(cloud.paths) is not None
