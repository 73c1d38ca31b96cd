"""Cloud Run services: what is refused, and the instance of a service."""

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import cloud_run
from twin.providers.gcp.effects.base import World
from twin.providers.gcp.effects.cloud_run import RunServiceEffect, process_of
from twin.providers.gcp.resources.identity import project_number
from twin.providers.gcp.server import world_of
from twin.wire.property_values import CloudError
from twin.world.run_services import SERVICE, place_of
from twin.world.store import Record, new_record

ID = "projects/acme/locations/us-east5/services/app"
OWN = "us-docker.pkg.dev/images/platform/personal@sha256:abc"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a twin whose image of ours is a small program of the tests."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    environment = SimpleNamespace(install=lambda _: tmp_path)
    program = (lambda: environment, "twin.tests.unit.gcp.instance")
    monkeypatch.setattr(cloud_run, "_PROGRAMS", {"personal": program})
    monkeypatch.setattr(cloud_run.clients, "environment", lambda _, caller: {"CALLER": caller.name})
    monkeypatch.setattr(cloud_run, "_signing", lambda _: {})
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    yield world_of(paths)
    processes.stop(paths, *processes.running(paths))


def service(image: str = OWN, **container: Any) -> dict[str, Any]:
    made = {"image": image, "envs": [{"name": "COLOR", "value": "red"}], **container}
    return {"template": {"containers": [made], "timeout": "60s"}, "deletionProtection": False}


def record_of(world: World, values: dict[str, Any]) -> Record:
    record = new_record(SERVICE, ID, "app", "acme", "urn", values, values)
    world.store.add(record, [])
    return record


def seen(world: World) -> dict[str, str]:
    """Return the variables of the instance."""
    place = place_of(world.store, ID)
    assert place is not None
    with urllib.request.urlopen(f"http://{place.host}:{place.port}/", timeout=5) as answer:
        return json.load(answer)


def test_an_instance_has_the_variables_of_cloud_run_and_a_change_is_the_next_revision(
    world: World,
) -> None:
    record = record_of(world, service())
    RunServiceEffect().create(world, record)
    usual = f"{project_number('acme')}-compute@developer.gserviceaccount.com"
    own = {"CALLER": usual, "K_CONFIGURATION": "app", "K_SERVICE": "app", "PORT": "8080"}
    assert seen(world) == {**own, "COLOR": "red", "K_REVISION": "app-00001-twn"}
    blue = service(envs=[{"name": "COLOR", "value": "blue"}], ports={"containerPort": 9000})
    blue["template"]["serviceAccount"] = "app@acme.iam.gserviceaccount.com"
    RunServiceEffect().update(world, record, blue)
    changed = {
        "CALLER": "app@acme.iam.gserviceaccount.com",
        "COLOR": "blue",
        "K_REVISION": "app-00002-twn",
        "PORT": "9000",
    }
    assert seen(world) == {**own, **changed}
    RunServiceEffect().delete(world, record)
    with pytest.raises(OSError, match="refused"):
        seen(world)


def test_an_instance_that_died_is_back(world: World) -> None:
    record = record_of(world, service())
    RunServiceEffect().create(world, record)
    world.store.set(SERVICE, ID, status="ready")
    processes.stop(world.paths, process_of(ID, "app", 1))
    cloud_run.repair(world.paths)
    assert seen(world)["K_REVISION"] == "app-00001-twn"


def test_a_service_that_does_not_start_again_is_logged_and_others_are_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("aaa", "app"):
        values = service()
        record = new_record(SERVICE, ID.replace("app", name), name, "acme", "urn", values, values)
        world.store.add(record, [])
        RunServiceEffect().create(world, record)
        world.store.set(SERVICE, record.id, status="ready")
    processes.stop(world.paths, *processes.running(world.paths))
    world.store.set(SERVICE, ID.replace("app", "aaa"), outputs=service(args=["fail"]))
    cloud_run.repair(world.paths)
    assert "Cloud Run service aaa does not start" in caplog.text
    assert "no settings" in caplog.text
    assert seen(world)["K_SERVICE"] == "app"


def test_clusters_are_back_before_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(daemon.clusters, "folders", lambda _: [tmp_path / "prod"])
    monkeypatch.setattr(daemon.clusters, "is_running", lambda *_: False)
    monkeypatch.setattr(daemon.clusters, "ensure_running", lambda folder, _: seen.append("cluster"))
    monkeypatch.setattr(daemon.cloud_run, "repair", lambda _: seen.append("services"))
    assert daemon.repair(TwinPaths(tmp_path)) == ["prod"]
    assert seen == ["cluster", "services"]


def test_a_container_that_does_not_listen_fails_its_revision(world: World) -> None:
    record = record_of(world, service(args=["fail"]))
    told = r"Revision 'app-00001-twn' is not ready .* PORT=8080 .* no settings"
    with pytest.raises(CloudError, match=told):
        RunServiceEffect().create(world, record)
    assert processes.running(world.paths) == {}
    assert place_of(world.store, ID) is None


def test_the_last_ready_revision_answers_while_others_fail(world: World) -> None:
    record = record_of(world, service())
    RunServiceEffect().create(world, record)
    for number in (2, 3):
        with pytest.raises(CloudError, match=f"Revision 'app-0000{number}-twn' is not ready"):
            RunServiceEffect().update(world, record, service(args=["fail"]))
        assert seen(world)["K_REVISION"] == "app-00001-twn"
    RunServiceEffect().update(world, record, service(args=["ready"]))
    assert seen(world)["K_REVISION"] == "app-00004-twn"
    assert list(processes.running(world.paths)) == [process_of(ID, "app", 4)]


def test_an_image_of_others_is_no_process(world: World) -> None:
    record = record_of(world, service("us-docker.pkg.dev/cloudrun/container/hello"))
    RunServiceEffect().create(world, record)
    assert place_of(world.store, ID) is None


def test_reserved_variables_are_refused(world: World) -> None:
    record = record_of(world, service(envs=[{"name": "PORT", "value": "1"}]))
    with pytest.raises(CloudError, match="reserved env names were provided: PORT"):
        RunServiceEffect().create(world, record)


def test_an_image_that_nobody_built_is_not_found(world: World) -> None:
    repository = "gcp:artifactregistry/repository:Repository"
    world.store.add(new_record(repository, "r", "r", "acme", "urn", {}, {}), [])
    image = "gke-inference.invalid/personal:1"
    with pytest.raises(CloudError, match=f"Image '{image}' not found"):
        RunServiceEffect().create(world, record_of(world, service(image)))


def test_a_protected_service_is_not_deleted(world: World) -> None:
    record = record_of(world, {**service(), "deletionProtection": True})
    with pytest.raises(CloudError, match="deletion_protection=false"):
        RunServiceEffect().check_delete(world, record)
