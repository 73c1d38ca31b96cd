import socket
import ssl
import threading

import pytest

from twin.host.paths import TwinPaths
from twin.host.pki import make_service_account_key, make_twin_pki


@pytest.fixture
def paths(tmp_path):
    found = TwinPaths(tmp_path)
    found.create()
    make_twin_pki(found)
    return found


def _serve_once(paths, listener):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths.pki / "local.crt", paths.pki / "local.key")
    connection, _ = listener.accept()
    try:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.sendall(b"hello")
    except OSError:
        connection.close()


def _connect(paths, bundle):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_serve_once, args=(paths, listener))
        server.start()
        try:
            context = ssl.create_default_context(cafile=str(bundle) if bundle else None)
            with (
                socket.create_connection(listener.getsockname()) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
            ):
                return secured.recv(5)
        finally:
            server.join()


def test_the_bundle_makes_the_twins_servers_trusted(paths):
    assert _connect(paths, paths.ca_bundle) == b"hello"


def test_without_the_bundle_the_twins_servers_are_not_trusted(paths, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(ssl.SSLCertVerificationError):
        _connect(paths, None)


def test_the_bundle_keeps_the_systems_authorities(paths):
    assert paths.ca_bundle.read_text().count("BEGIN CERTIFICATE") > 1


def test_keys_are_readable_by_their_owner_alone_and_made_once(paths):
    key = paths.pki / "ca.key"
    before = key.read_bytes()
    assert key.stat().st_mode & 0o077 == 0
    make_twin_pki(paths)
    make_service_account_key(paths.pki)
    assert key.read_bytes() == before
    assert (paths.pki / "sa.key").stat().st_mode & 0o077 == 0
