"""Memorystore for Valkey as a process of the twin."""

import os
import signal
import socket
import ssl
import time
from typing import Any

import pytest

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.pki import make_authority
from twin.providers.gcp.effects import valkey
from twin.providers.gcp.effects.valkey import ValkeyEffect, process_of
from twin.providers.gcp.resources.memorystore import INSTANCE, PORT
from twin.providers.gcp.server import world_of
from twin.tests.eventually import eventually
from twin.tests.tools import needed
from twin.world.store import new_record

pytestmark = pytest.mark.needs_tools
ID = "projects/acme/locations/us-east5/instances/limits"
VPC = "projects/acme/global/networks/vpc"


@pytest.fixture(name="world")
def a_world(tmp_path):
    needed(valkey.PROGRAM)
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    make_authority(paths.pki, "ca")
    yield world_of(paths)
    processes.stop(paths, *processes.running(paths))


def made(world, **inputs: Any):
    """Create an instance as the provider does, and return its record and address."""
    wanted = {
        "desiredAutoCreatedEndpoints": [{"network": VPC, "projectId": "acme"}],
        "mode": "CLUSTER_DISABLED",
        **inputs,
    }
    record = new_record(INSTANCE, ID, "limits", "acme", "urn", wanted, wanted)
    world.store.add(record, [])
    outputs = ValkeyEffect().create(world, record)
    world.store.set(INSTANCE, ID, status="ready", outputs={**wanted, **outputs})
    (endpoint,) = outputs["endpoints"]
    return record, endpoint["connections"][0]["pscAutoConnection"]["ipAddress"], outputs


def ask(address: str, *words: str, context: ssl.SSLContext | None = None) -> str:
    """Send one command and return the first line of the answer."""
    raw = socket.create_connection((address, PORT), timeout=5)
    with context.wrap_socket(raw, server_hostname=address) if context else raw as connection:
        parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        return connection.recv(4096).decode().strip()


def test_an_instance_counts_expires_and_ends_with_its_deletion(world):
    record, address, _ = made(world)
    assert [ask(address, "INCR", "a") for _ in range(2)] == [":1", ":2"]
    assert ask(address, "EVAL", "return redis.call('INCR', KEYS[1])", "1", "a") == ":3"
    assert ask(address, "PEXPIRE", "a", "300") == ":1"
    began = time.monotonic()
    eventually(lambda: ask(address, "EXISTS", "a") == ":0", 5)
    assert time.monotonic() - began > 0.15
    ValkeyEffect().delete(world, record)
    with pytest.raises(OSError, match="refused"):
        ask(address, "PING")


def test_an_instance_that_died_is_back_at_its_address_and_empty(world):
    record, address, _ = made(world)
    assert ask(address, "SET", "a", "1") == "+OK"
    pid = processes.pid_of(world.paths, process_of(record))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: processes.pid_of(world.paths, process_of(record)) is None, 10)
    valkey.repair(world.paths)
    assert ask(address, "EXISTS", "a") == ":0"


def test_a_creation_tried_again_keeps_its_address(world):
    record, address, first = made(world)
    assert ValkeyEffect().create(world, record) == first
    assert ask(address, "PING") == "+PONG"


def test_an_encrypted_instance_is_trusted_by_the_authority_it_reports(world):
    _, address, outputs = made(world, transitEncryptionMode="SERVER_AUTHENTICATION")
    ((certificate,),) = [
        each["certificates"] for ca in outputs["managedServerCas"] for each in ca["caCerts"]
    ]
    context = ssl.create_default_context(cadata=certificate)
    assert ask(address, "PING", context=context) == "+PONG"
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(address, "PING", context=ssl.create_default_context())
