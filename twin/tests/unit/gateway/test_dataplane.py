"""The order in which Envoy gets its files."""

import json
from dataclasses import replace
from typing import Any

import pytest

from twin.cluster.gateway.envoy import dataplane
from twin.cluster.gateway.envoy.dataplane import DataPlane
from twin.cluster.gateway.envoy.process import EnvoyError
from twin.cluster.gateway.translation.model import Endpoint
from twin.cluster.gateway.translation.translate import translate
from twin.tests.unit.gateway.builders import gateway, model, route, rule, snapshot, to_pool


class FakeProcess:
    """An Envoy that takes everything at once."""

    def __init__(self, folder):
        self.folder, self.running, self.problem = folder, False, None
        self.error = None

    def pid(self):
        return 1 if self.running else None

    def start(self):
        if self.error:
            raise self.error
        self.running = True

    def stop(self):
        self.running = False

    def active_clusters(self):
        return set(names(self.folder, "cds.json"))

    def listener_updates(self):
        return 0

    def await_listeners(self, wanted, updates, seconds):
        return self.problem


def names(folder, file):
    return [r["name"] for r in json.loads((folder / file).read_text())["resources"]]


@pytest.fixture
def plane(tmp_path):
    found: Any = DataPlane(tmp_path, "ns", "gw", None)
    found.process = FakeProcess(found.folder)
    return found


def gateway_model(*pools):
    rules = [rule(to_pool(p), matches=[{"path": {"value": f"/{p}"}}]) for p in pools]
    objects = [o for p in pools for o in model(p)]
    return translate(snapshot(gateway(), route("r", *rules), *objects)).gateways["ns", "gw"]


def test_envoy_starts_with_all_files_there(plane):
    assert plane.apply(gateway_model("a")) is None
    assert plane.process.running
    assert names(plane.folder, "lds.json") == ["port-8080"]
    assert names(plane.folder, "rds/port-8080.json") == ["port-8080"]
    assert sorted(f.name for f in (plane.folder / "eds").iterdir()) == [
        "picker--ns--a.json",
        "pool--ns--a.json",
    ]


def test_of_many_backends_most_clusters_contain_their_endpoints(plane):
    plane.apply(gateway_model(*(f"m{n:02}" for n in range(15)), *(f"o{n:02}" for n in range(15))))
    files = {file.name for file in (plane.folder / "eds").iterdir()}
    assert len(files) == 40
    stored = json.loads((plane.folder / "cds.json").read_text())["resources"]
    inside = {each["name"]: each for each in stored if each["type"] == "STATIC"}
    assert len(stored) == 60
    assert {f"{name.replace('/', '--')}.json" for name in inside}.isdisjoint(files)
    cluster = inside["pool/ns/o14"]
    assert "eds_cluster_config" not in cluster
    (group,) = cluster["load_assignment"]["endpoints"]
    assert len(group["lb_endpoints"]) == 2


def test_old_clusters_outlive_the_routes_to_them(plane, monkeypatch):
    plane.apply(gateway_model("a"))
    plane.apply(gateway_model("b"))
    assert names(plane.folder, "cds.json") == [
        "pool/ns/b",
        "picker/ns/b",
        "pool/ns/a",
        "picker/ns/a",
    ]
    plane.prune()
    assert len(names(plane.folder, "cds.json")) == 4
    monkeypatch.setattr(dataplane, "_KEEP_SECONDS", -1.0)
    plane.apply(gateway_model("b"))
    plane.prune()
    assert names(plane.folder, "cds.json") == ["pool/ns/b", "picker/ns/b"]
    assert not (plane.folder / "eds" / "pool--ns--a.json").exists()


def test_a_file_that_stays_the_same_is_not_touched(plane):
    plane.apply(gateway_model("a"))
    before = {f: f.stat().st_ino for f in plane.folder.rglob("*.json")}
    plane.apply(gateway_model("a"))
    assert {f: f.stat().st_ino for f in plane.folder.rglob("*.json")} == before


def test_files_are_readable_by_their_owner_only(plane):
    plane.apply(gateway_model("a"))
    assert (plane.folder / "lds.json").stat().st_mode & 0o077 == 0


def test_what_envoy_refuses_is_returned(plane):
    plane.process.problem = "port-8080: cannot bind"
    assert plane.apply(gateway_model("a")) == "port-8080: cannot bind"
    plane.process.error = EnvoyError("no Envoy")
    assert plane.apply(gateway_model("a")) == "no Envoy"


def test_listeners_that_envoy_refused_are_written_again(plane):
    plane.process.problem = "port-8080: cannot bind"
    plane.apply(gateway_model("a"))
    before = (plane.folder / "lds.json").stat().st_ino
    plane.process.problem = None
    assert plane.apply(gateway_model("a")) is None
    second = (plane.folder / "lds.json").stat().st_ino
    assert second != before
    plane.apply(gateway_model("a"))
    assert (plane.folder / "lds.json").stat().st_ino == second


def test_removing_a_gateway_leaves_nothing(plane):
    plane.apply(gateway_model("a"))
    plane.remove()
    assert not plane.process.running
    assert not plane.folder.exists()


class Watched(FakeProcess):
    """An Envoy that reports healthy endpoints, and records the files at each request."""

    def __init__(self, folder, healthy):
        super().__init__(folder)
        self.healthy, self.seen = healthy, []

    def healthy_endpoints(self):
        self.seen.append(endpoints(self.folder))
        return self.healthy


def endpoints(folder):
    (found,) = json.loads((folder / "eds" / "pool--ns--a.json").read_text())["resources"]
    return [
        entry["endpoint"]["address"]["socket_address"]["address"]
        for group in found["endpoints"]
        for entry in group["lb_endpoints"]
    ]


def with_endpoint(found, address):
    backends = tuple(
        replace(b, endpoints=(Endpoint(address, 8000),)) if b.name == "pool/ns/a" else b
        for b in found.backends
    )
    return replace(found, backends=backends)


@pytest.mark.parametrize("is_healthy", [True, False])
def test_an_endpoint_is_kept_until_its_successor_passes_a_probe_or_time_is_up(
    plane, monkeypatch, is_healthy
):
    monkeypatch.setattr(dataplane, "_HAND_OVER_SECONDS", 0.05)
    new = ("pool/ns/a", "127.0.0.2", 8000)
    watched = Watched(plane.folder, {new} if is_healthy else set())
    plane.process = watched
    plain = gateway_model("a")
    plane.apply(with_endpoint(plain, "127.0.0.1"))
    assert watched.seen == []
    plane.apply(with_endpoint(plain, "127.0.0.2"))
    assert watched.seen[0] == ["127.0.0.2", "127.0.0.1"]
    assert (len(watched.seen) == 1) == is_healthy
    assert endpoints(plane.folder) == ["127.0.0.2"]


def test_an_endpoint_that_has_no_successor_goes_at_once(plane):
    plane.process = Watched(plane.folder, set())
    plain = gateway_model("a")
    plane.apply(with_endpoint(plain, "127.0.0.1"))
    empty = tuple(replace(b, endpoints=()) for b in plain.backends)
    plane.apply(replace(plain, backends=empty))
    assert plane.process.seen == []
    assert endpoints(plane.folder) == []
