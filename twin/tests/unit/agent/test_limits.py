"""Limits that end containers and pods, with real processes and files."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent import records, status
from twin.cluster.agent.container import Container, tick_all
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.place import Launch
from twin.cluster.agent.limits import Limits, resident_bytes
from twin.world.rules import Rules

SMALL = "import time; time.sleep(60)"
LARGE = "import time; held = b'x' * (64 << 20); time.sleep(60)"
LARGE_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {LARGE!r}])"
LIMIT: dict[str, Any] = {"resources": {"limits": {"memory": "48Mi"}}}
Make = Callable[..., Container]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Container] = []

    def build(program: str, policy: str = "Always", **spec: Any) -> Container:
        container = Container(
            {"name": "c", "image": "program:1"} | spec,
            Launch(Kind.ENGINE, [sys.executable, "-S", "-c", program], {"PATH": "/usr/bin"}),
            tmp_path,
            tmp_path / f"{spec.get('name', 'c')}.log",
            policy,
            Rules(speed=1000),
            lambda port: ("127.0.0.1", int(port)),
            lambda *_: None,
        )
        made.append(container)
        return container

    yield build
    records.end([c.record for c in made if c.record is not None], grace=0.1)


def pod(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [], "volumes": list(volumes)},
        "status": {"podIP": "127.0.0.9"},
    }


def run(
    container: Container,
    limits: Limits,
    until: Callable[[], bool],
    seconds: float,
    *others: Container,
) -> bool:
    """Whether something becomes true while the container runs within its limits."""
    containers = [container, *others]
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        tick_all(containers, 0.1)
        limits.look(containers, 0.1)
        time.sleep(0.05)
    return until()


@pytest.mark.parametrize("program", [LARGE, LARGE_CHILD], ids=["itself", "its child"])
def test_a_container_over_its_memory_limit_is_killed_and_restarts(
    make: Make, tmp_path: Path, program: str
) -> None:
    container = make(program, **LIMIT)
    assert run(container, Limits(pod(), tmp_path), lambda: container.restarts > 0, 20)
    ended = container.last_state["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_container_that_is_not_to_restart_stays_killed(make: Make, tmp_path: Path) -> None:
    container = make(LARGE, "Never", **LIMIT)
    assert run(container, Limits(pod(), tmp_path), lambda: container.finished, 20)
    assert container.state["terminated"]["reason"] == "OOMKilled"
    assert status.phase([container]) == "Failed"


def test_a_container_within_its_limit_or_without_one_goes_on(make: Make, tmp_path: Path) -> None:
    for container in (make(SMALL, **LIMIT), make(LARGE)):
        assert not run(container, Limits(pod(), tmp_path), lambda: False, 3)
        assert container.restarts == 0
        assert container.record is not None
        assert container.record.alive


def test_what_a_container_writes_to_a_volume_in_memory_counts_as_its_memory(
    make: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "volumes" / "cache"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(60 << 20))
    volume = {"emptyDir": {"medium": "Memory", "sizeLimit": "100Mi"}, "name": "cache"}
    mount = {"mountPath": "/cache", "name": "cache"}
    limits = Limits(pod(volume), tmp_path)
    reads = make(SMALL, **LIMIT, volumeMounts=[{**mount, "readOnly": True}])
    assert not run(reads, limits, lambda: reads.restarts > 0, 3)
    writes = make(SMALL, **LIMIT, volumeMounts=[mount])
    assert run(writes, limits, lambda: writes.restarts > 0, 20)
    assert writes.last_state["terminated"]["reason"] == "OOMKilled"


def test_a_pod_with_more_in_a_volume_than_its_size_limit_is_evicted(
    make: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "volumes" / "home" / "below"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(2 << 20))
    volume = {"emptyDir": {"sizeLimit": "1Mi"}, "name": "home"}
    container = make(SMALL)
    message = evicted(container, Limits(pod(volume), tmp_path), volume)
    assert message == 'Usage of EmptyDir volume "home" exceeds the limit "1Mi". '
    assert container.restarts == 0


def evicted(container: Container, limits: Limits, *volumes: dict[str, Any]) -> str:
    """Return the message with which a pod was evicted."""
    assert run(container, limits, lambda: container.finished, 20)
    found = status.pod_status(pod(*volumes), [container], time.time())
    assert (found["phase"], found["reason"]) == ("Failed", "Evicted")
    return str(found["message"])


def disk(size: str) -> dict[str, Any]:
    return {"resources": {"limits": {"ephemeral-storage": size}}}


def test_a_pod_whose_logs_and_volumes_exceed_its_ephemeral_storage_is_evicted(
    make: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "volumes" / "cache"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(2 << 20))
    on_disk = {"emptyDir": {}, "name": "cache"}
    in_memory = {"emptyDir": {"medium": "Memory"}, "name": "cache"}
    (tmp_path / "c.log").write_text("of an earlier pod of this name\n")
    container = make(SMALL, **disk("2Mi"))
    assert not run(container, Limits(pod(in_memory), tmp_path), lambda: container.finished, 3)
    limits = Limits(pod(on_disk), tmp_path)
    assert not run(container, limits, lambda: container.finished, 3)
    with (tmp_path / "c.log").open("a") as log:
        log.write("a line\n")
    message = evicted(container, limits, on_disk)
    assert (
        message == "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
    )


def test_a_container_whose_log_exceeds_its_ephemeral_storage_has_its_pod_evicted(
    make: Make, tmp_path: Path
) -> None:
    container = make(f"print('x' * {3 << 20}, flush=True); {SMALL}", **disk("2Mi"))
    other = make(SMALL, name="other", **disk("1Gi"))
    limits = Limits(pod(), tmp_path)
    assert run(container, limits, lambda: container.finished, 20, other)
    found = status.pod_status(pod(), [container, other], time.time())
    assert found["message"] == 'Container c exceeded its local ephemeral storage limit "2Mi". '


def test_what_a_container_logs_before_the_first_look_counts(make: Make, tmp_path: Path) -> None:
    container = make(f"print('x' * {3 << 20}, flush=True); {SMALL}", **disk("2Mi"))
    container.tick()
    end = time.monotonic() + 20
    while not container.log.exists() or container.log.stat().st_size < 3 << 20:
        assert time.monotonic() < end
        time.sleep(0.05)
    Limits(pod(), tmp_path).look([container], 0.1)
    assert container.evicted


def test_a_process_that_has_ended_has_no_memory() -> None:
    assert resident_bytes(2**22 + 1) == 0
