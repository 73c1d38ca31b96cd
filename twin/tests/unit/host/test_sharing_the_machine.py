"""Two checkouts, two clusters, two commands at once: resources that must not be shared."""

import socket
import subprocess
import sys
import threading
import time

import pytest

from twin.cluster.controlplane.blocks import hold_block, hold_free_block
from twin.cluster.controlplane.processes import Ports
from twin.host import addresses, processes
from twin.host.locks import exclusive
from twin.host.paths import REPOSITORY, TwinPaths
from twin.host.ports import free_port, free_ports
from twin.providers.gcp.effects.address import address
from twin.providers.gcp.effects.address import hold_block as hold_addresses
from twin.providers.gcp.effects.base import World
from twin.world.events import Events
from twin.world.store import Record, Store


def test_free_ports_are_different_and_can_be_bound():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_a_port_is_none_that_the_kernel_gives_to_outgoing_connections():
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        lowest = int(file.read().split()[0])
    assert free_port() < max(lowest, 32_000)


def test_a_cluster_keeps_its_ports_over_a_restart(tmp_path):
    first = Ports.load_or_choose(tmp_path / "ports.json")
    assert Ports.load_or_choose(tmp_path / "ports.json") == first


def test_two_clusters_created_at_once_have_ranges_of_their_own():
    one, first = hold_free_block(5)
    with first:
        two, second = hold_free_block(5)
        with second:
            assert one != two
            with pytest.raises(OSError, match="in use"):
                hold_block(one)
    with hold_block(one) as again:
        assert again.getsockname()[1] > 0


def test_a_lock_has_one_holder_among_threads(tmp_path):
    held = 0
    most = 0

    def work() -> None:
        nonlocal held, most
        with exclusive(tmp_path / "lock"):
            held += 1
            most = max(most, held)
            time.sleep(0.01)
            held -= 1

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert most == 1


HOLD = """
import sys, time
from pathlib import Path
from twin.host.locks import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_free_again_when_its_holder_is_killed(tmp_path):
    file = tmp_path / "lock"
    argv = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    begun = time.monotonic()
    with exclusive(file):
        assert time.monotonic() - begun < 2


def _world(paths):
    return World(paths, Store(paths.cloud_db), Events(paths.events_file))


@pytest.fixture
def two_twins(tmp_path, monkeypatch):
    """Twins in two folders whose names ask for the same block of addresses."""
    monkeypatch.setattr(addresses, "preferred", lambda _root: 201)
    paths = [TwinPaths(tmp_path / name) for name in ("a", "b")]
    for each in paths:
        each.create()
    return paths


def test_twins_that_want_the_same_addresses_get_others(two_twins):
    with hold_addresses(two_twins[0]), hold_addresses(two_twins[1]):
        first, second = ({address(_world(p), n) for n in range(1, 200)} for p in two_twins)
    assert len(first) == len(second) == 199
    assert not first & second


def test_a_twin_keeps_its_addresses_over_a_restart(two_twins):
    with hold_addresses(two_twins[0]), hold_addresses(two_twins[1]):
        before = address(_world(two_twins[1]), 1)
    with hold_addresses(two_twins[1]):
        assert address(_world(two_twins[1]), 1) == before


def test_a_twin_whose_addresses_another_one_took_meanwhile_says_so(two_twins):
    with hold_addresses(two_twins[0]):
        record = Record(
            "compute/address", "models", "models", "p", "urn", "ready", True, {}, {}, 0.0
        )
        Store(two_twins[0].cloud_db).add(record, [])
    with (
        hold_addresses(two_twins[1]),
        pytest.raises(processes.ProcessError, match=r"another twin .* took 127\.32\.201\.0/24"),
    ):
        hold_addresses(two_twins[0])
