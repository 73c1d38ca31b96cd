"""The listening sockets of this machine and the programs behind them."""

import os
import socket
import subprocess
import sys
import time

import pytest

from twin.host.listening import Listener, listeners, of_twin
from twin.host.paths import TwinPaths


@pytest.mark.parametrize(
    ("family", "address", "on_loopback", "on_all"),
    [
        (socket.AF_INET, "127.0.0.1", True, False),
        (socket.AF_INET, "127.36.4.5", True, False),
        (socket.AF_INET, "0.0.0.0", False, True),  # noqa: S104 - for a moment
        (socket.AF_INET6, "::1", True, False),
        (socket.AF_INET6, "::", False, True),
    ],
)
def test_a_listening_socket_has_its_address_and_program(family, address, on_loopback, on_all):
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        [found] = [each for each in listeners() if each.port == port and each.pid == os.getpid()]
    assert (found.address, found.is_on_loopback, found.is_on_all) == (address, on_loopback, on_all)
    assert found.program


def test_a_loopback_address_of_a_socket_for_both_versions_of_ip_is_one():
    assert Listener("::ffff:127.0.0.1", 80).is_on_loopback
    assert not Listener("::ffff:192.0.2.1", 80).is_on_loopback


def test_a_connection_is_no_listening_socket():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as caller,
    ):
        ports = [each.port for each in listeners() if each.pid == os.getpid()]
        assert server.getsockname()[1] in ports
        assert caller.getsockname()[1] not in ports


def test_a_program_of_a_twin_writes_its_output_into_the_twins_folder(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    code = "import socket,time; s=socket.create_server(('127.0.0.1',0)); time.sleep(60)"
    with (paths.logs / "program.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=log)
    try:
        end = time.monotonic() + 30
        while not (found := of_twin(paths)):
            assert time.monotonic() < end
            time.sleep(0.1)
        [one] = found
        assert one == Listener("127.0.0.1", one.port, process.pid, one.program)
        assert of_twin(TwinPaths(tmp_path / "other")) == []
    finally:
        process.kill()
        process.wait()
