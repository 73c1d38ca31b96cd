"""`gke-inference up` while another program has the port of the gateway."""

import os
import socket

import pytest

from infra.stack import Gateway
from scripts.operate import refusals
from scripts.operate.refusals import refuse_busy_port
from scripts.terminal.console import CheckFailedError
from twin.host.addresses import preferred
from twin.host.listening import Listener
from twin.host.paths import TwinPaths

_ALL = "0.0.0.0"  # noqa: S104 - read, not bound


@pytest.fixture
def paths(tmp_path):
    made = TwinPaths(tmp_path / "twin")
    made.create()
    return made


@pytest.mark.parametrize(
    ("found", "by"),
    [
        (Listener(_ALL, 8080, 1234, "python3"), "PID 1234 (python3)"),
        (Listener("::", 8080, 1234, "node"), "PID 1234 (node)"),
        (Listener(_ALL, 8080), "a program of another user"),
    ],
)
def test_a_port_that_another_program_has_on_all_addresses_is_refused(paths, monkeypatch, found, by):
    monkeypatch.setattr(refusals, "listeners", lambda: [found])
    monkeypatch.setattr(refusals, "is_of_twin", lambda _pid, _paths: False)
    with pytest.raises(CheckFailedError) as error:
        refuse_busy_port("local", paths)
    assert str(error.value) == (
        "local: port 8080 of the gateway and of the model catalog's pods is in use by"
        f" {by}, which listens on all addresses. Stop it"
    )


def test_ports_of_gateway_and_engines_that_other_programs_have_are_named_at_once(
    paths, monkeypatch
):
    monkeypatch.setattr(Gateway, "listening_port", 8443)
    found = [Listener(_ALL, 8000, 12, "python3"), Listener("::", 8443, 34, "node")]
    monkeypatch.setattr(refusals, "listeners", lambda: found)
    monkeypatch.setattr(refusals, "is_of_twin", lambda _pid, _paths: False)
    with pytest.raises(CheckFailedError) as error:
        refuse_busy_port("local", paths)
    assert str(error.value) == (
        "local: port 8000 of the engines' pods is in use by PID 12 (python3), which listens on all"
        " addresses. Stop it; port 8443 of the gateway is in use by PID 34 (node), which listens on"
        " all addresses. Stop it, or set another `gateway.port` in stacks/Pulumi.local.yaml"
    )


def test_the_gateways_own_address_that_another_program_has_is_refused(paths):
    address = f"127.32.{preferred(paths.root)}.1"
    with (
        socket.create_server((address, 8080)),
        pytest.raises(CheckFailedError, match=rf"PID {os.getpid()} \(.+\), which .* {address}\. "),
    ):
        refuse_busy_port("local", paths)


@pytest.mark.parametrize(
    "found",
    [
        Listener(_ALL, 8081, 1234, "python3"),
        Listener("127.0.0.1", 8080, 1234, "python3"),
        Listener("127.0.0.1", 8000, 1234, "python3"),
        Listener("127.64.0.2", 8080, 1234, "python3"),
        Listener("192.0.2.7", 8080, 1234, "python3"),
    ],
)
def test_a_program_on_another_port_or_address_is_no_obstacle(paths, monkeypatch, found):
    monkeypatch.setattr(refusals, "listeners", lambda: [found])
    refuse_busy_port("local", paths)


def test_the_gateway_of_the_same_twin_is_no_obstacle_to_the_next_up(paths, monkeypatch):
    own = Listener(f"127.32.{preferred(paths.root)}.1", 8080, 77, "envoy")
    monkeypatch.setattr(refusals, "listeners", lambda: [own])
    monkeypatch.setattr(refusals, "is_of_twin", lambda pid, where: (pid, where) == (77, paths))
    refuse_busy_port("local", paths)


def test_the_stores_of_the_client_gate_are_among_the_ports(paths, monkeypatch):
    monkeypatch.setattr(refusals, "listeners", lambda: [Listener("::", 6379, 21, "redis-server")])
    monkeypatch.setattr(refusals, "is_of_twin", lambda _pid, _paths: False)
    with pytest.raises(CheckFailedError) as error:
        refuse_busy_port("prod", paths)
    assert str(error.value) == (
        "prod: port 6379 of the stores of counters and answers is in use by PID 21"
        " (redis-server), which listens on all addresses. Stop it"
    )
    refuse_busy_port("local", paths)


def test_the_redirect_of_a_global_front_is_among_the_ports(paths, monkeypatch):
    monkeypatch.setattr(refusals, "listeners", lambda: [Listener(_ALL, 80, 21, "nginx")])
    monkeypatch.setattr(refusals, "is_of_twin", lambda _pid, _paths: False)
    with pytest.raises(CheckFailedError, match="port 80 of the redirect from HTTP is in use"):
        refuse_busy_port("prod", paths)
