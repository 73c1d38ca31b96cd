"""The stand-ins for Google's data services answer programs of their user, and no web page."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from twin.host.paths import TwinPaths
from twin.host.pki import make_leaf, make_twin_pki
from twin.host.ports import free_ports, listens
from twin.tests.unit.host.test_own_callers import ask, ask_as_nobody
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools

_NOBODY = 65_534
_API_VERSIONS = "0000000a 0012 0000 00000001 ffff"  # of Kafka, version 0
_PING = b"*1\r\n$4\r\nPING\r\n".hex()
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".hex() + "000000040000000000"  # empty SETTINGS
_PAGE = b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 14\r\n\r\n".hex() + _PING

# what it imports cannot be read by every user
_ASKING = """
import encodings.idna, os, socket, ssl, sys
os.setuid(int(sys.argv[1]))
peer = socket.create_connection(("127.0.0.1", int(sys.argv[2])), timeout=10)
try:
    if sys.argv[4] == "tls":
        context = ssl._create_unverified_context()
        peer = context.wrap_socket(peer)
    peer.sendall(bytes.fromhex(sys.argv[3]))
    print(peer.recv(65536).hex() or "none")
except (ConnectionError, ssl.SSLError):
    print("none")
"""


@dataclass(frozen=True)
class Servers:
    """Ports of the programs."""

    buckets: int
    pubsub: int
    pubsub_admin: int
    kafka: int
    valkey: int
    encrypted: int


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    paths = TwinPaths(folder / "twin")
    paths.create()
    make_twin_pki(paths)
    make_leaf(folder, "server", paths.pki / "ca", server=True, address="127.0.0.1")
    found = Servers(*free_ports(6))
    commands = [
        ("fake-gcs-server", f"--address=127.0.0.1:{found.buckets}", f"--folder={folder / 'gcs'}"),
        (
            "pubsub",
            f"--address=127.0.0.1:{found.pubsub}",
            f"--admin-address=127.0.0.1:{found.pubsub_admin}",
        ),
        ("kafka", f"--address=127.0.0.1:{found.kafka}"),
        ("valkey", f"--address=127.0.0.1:{found.valkey}"),
        (
            "valkey",
            f"--address=127.0.0.1:{found.encrypted}",
            f"--certificate={folder / 'server.crt'}",
            f"--key={folder / 'server.key'}",
        ),
    ]
    (folder / "gcs").mkdir()
    started = [subprocess.Popen([tool(name), *words]) for name, *words in commands]
    end = time.monotonic() + 60
    while not all(map(listens, vars(found).values())):
        assert time.monotonic() < end
        time.sleep(0.05)
    yield found
    for process in started:
        process.terminate()
        process.wait(10)


def _sent(user: int, port: int, content: str, transport: str = "plain") -> str:
    """Return the first bytes of a server's answer to a user, in hexadecimal; `none` without one."""
    argv = [sys.executable, "-c", _ASKING, str(user), str(port), content, transport]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


_PROTOCOLS = [
    ("kafka", _API_VERSIONS, "plain"),
    ("pubsub", _PREFACE, "plain"),
    ("valkey", _PING, "plain"),
    ("encrypted", _PING, "tls"),
]


@pytest.mark.parametrize(("name", "content", "transport"), _PROTOCOLS)
def test_a_server_answers_its_user(servers: Servers, name: str, content: str, transport: str):
    answer = _sent(os.getuid(), getattr(servers, name), content, transport)
    assert len(bytes.fromhex(answer)) >= len(b"+PONG\r\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("name", "content", "transport"), _PROTOCOLS)
def test_a_server_does_not_answer_another_user(
    servers: Servers, name: str, content: str, transport: str
):
    assert _sent(_NOBODY, getattr(servers, name), content, transport) == "none"


@pytest.mark.parametrize(
    ("name", "path"),
    [("buckets", "/storage/v1/b?project=acme"), ("pubsub_admin", "/metrics")],
)
def test_an_http_server_answers_its_user_and_no_other_user_or_web_page(
    servers: Servers, name: str, path: str
):
    address = ("127.0.0.1", getattr(servers, name))
    assert ask(address, path) == 200
    assert ask(address, path, origin="https://evil.example") == 403
    assert ask(address, path, "OPTIONS", origin="https://evil.example") == 403
    assert ask(address, path, host="evil.example") == 403
    if os.getuid() == 0:
        assert ask_as_nobody(address, path) == "none"


def test_valkey_carries_out_no_command_in_a_request_of_a_web_page(servers: Servers):
    # Kafka reads `POST` as the size of a message that never arrives
    answer = _sent(os.getuid(), servers.valkey, _PAGE)
    assert b"PONG" not in (b"" if answer == "none" else bytes.fromhex(answer))


def test_valkey_names_its_own_address_to_clients_of_a_cluster(servers: Servers):
    asked = b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n".hex()
    answer = bytes.fromhex(_sent(os.getuid(), servers.valkey, asked)).decode()
    assert f"127.0.0.1\r\n:{servers.valkey}\r\n" in answer


def test_a_program_without_an_address_is_refused(tmp_path: Path):
    answer = subprocess.run(
        [tool("fake-gcs-server"), f"--folder={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (2, "--address and --folder: are required\n")
