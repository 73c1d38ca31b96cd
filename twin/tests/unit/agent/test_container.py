"""A container's life: start, probes, failure, backoff, adoption."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from twin.cluster.agent import records, status
from twin.cluster.agent.container import Container, tick_all
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.place import Launch
from twin.world.rules import Rules

SLEEPS = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
FAILS = [sys.executable, "-S", "-c", "import sys; print('out of luck'); sys.exit(3)"]
LINGERS = [
    sys.executable,
    "-S",
    "-c",
    "import ctypes, os, threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.5), os._exit(7))).start()\n"
    "ctypes.CDLL(None).pthread_exit(None)",
]
ENDS = [sys.executable, "-S", "-c", "pass"]


class Server:
    """Answers probes with a status that tests change."""

    def __init__(self) -> None:
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = ("127.0.0.1", self._http.server_port)
        Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Container]]:
    made: list[Container] = []

    def build(argv: list[str], policy: str = "Always", target: Any = None, **spec: Any):
        container = Container(
            {"name": "c", "image": "vllm/vllm-openai:1", **spec},
            Launch(Kind.ENGINE, argv, {"PATH": "/usr/bin"}),
            tmp_path,
            tmp_path / "c.log",
            policy,
            Rules(speed=1000),
            target or (lambda port: ("127.0.0.1", int(port))),
            lambda *_: None,
        )
        made.append(container)
        return container

    yield build
    records.end([c.record for c in made if c.record is not None], grace=0.1)


def until(container: Container, check: Callable[[], Any], seconds: float = 10.0) -> None:
    limit = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < limit, container.status()
        container.tick()
        time.sleep(0.01)


def cannot_start(container: Container) -> Container:
    message = 'exec: "ray": executable file not found in $PATH: unknown'
    container.launch = replace(container.launch, argv=[], cannot_start=message)
    return container


def test_a_program_that_the_image_lacks_is_a_start_error_with_code_128(make):
    container = cannot_start(make([], "Never"))
    container.tick()
    ended = container.status()["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert ended["message"].startswith("failed to create containerd task: ")
    assert ended["message"].endswith('exec: "ray": executable file not found in $PATH: unknown')
    assert container.finished


def test_a_container_that_cannot_start_is_tried_again_with_back_off(make):
    container = cannot_start(make([]))
    container.tick()
    assert container.status()["state"]["waiting"]["reason"] == "RunContainerError"
    assert container.status()["lastState"]["terminated"]["exitCode"] == 128
    container.tick()
    assert container.status()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container.restarts == 2
    assert container.status()["ready"] is False


def test_without_probes_a_running_container_is_ready(make: Callable[..., Container]):
    container = make(SLEEPS)
    container.tick()
    assert container.status()["ready"] is True
    assert container.status()["state"]["running"]["startedAt"].endswith("Z")


def test_nobody_looks_at_a_container_without_probes_until_its_process_ends(
    make: Callable[..., Container],
):
    container, ended = make(SLEEPS), Event()
    container.wake = ended.set
    container.tick()
    assert (container.next_due(), ended.is_set()) == (math.inf, False)
    assert container.record is not None
    records.signal_all([container.record], signal.SIGKILL)
    assert ended.wait(20)
    container.tick()
    assert container.restarts == 1
    assert container.next_due() <= time.monotonic()


def test_before_a_start_only_the_startup_probe_is_due(
    make: Callable[..., Container], server: Server
):
    probe = {"httpGet": {"path": "/health", "port": 1}}
    server.status = 503
    slow = {**probe, "periodSeconds": 10, "failureThreshold": 9}
    container = make(
        SLEEPS, target=lambda _: server.address, startupProbe=slow, readinessProbe=probe
    )
    container.rules = Rules(speed=1)
    container.tick()
    container.tick()
    assert container.next_due() > time.monotonic() + 0.2


def test_a_container_is_ready_after_startup_and_readiness_and_not_after_a_failure(
    make: Callable[..., Container], server: Server
):
    probe = {"httpGet": {"path": "/health", "port": 1}, "periodSeconds": 0.01}
    server.status = 503
    container = make(
        SLEEPS,
        target=lambda _: server.address,
        startupProbe={**probe, "failureThreshold": 1000},
        readinessProbe=probe,
    )
    container.tick()
    container.tick()
    assert not container.started
    server.status = 200
    until(container, lambda: container.started and container.ready)
    server.status = 500
    until(container, lambda: not container.ready)
    assert container.restarts == 0


@pytest.mark.parametrize("name", ["startupProbe", "livenessProbe"])
def test_a_container_that_fails_startup_or_liveness_is_killed_and_restarted(
    name: str, make: Callable[..., Container], server: Server
):
    server.status = 500
    probe = {
        "httpGet": {"path": "/", "port": 1},
        "periodSeconds": 0.01,
        "failureThreshold": 2,
    }
    container = make(SLEEPS, target=lambda _: server.address, **{name: probe})
    until(container, lambda: container.restarts == 1)
    assert container.last_state["terminated"]["exitCode"] == 128 + signal.SIGTERM


def test_a_container_that_fails_after_a_slow_start_backs_off_on_a_fast_twin_too(
    make: Callable[..., Container],
):
    container = make(FAILS)
    until(container, lambda: container.restarts == 1 and container.running_since is not None)
    assert container.running_since is not None
    container.running_since -= 20  # of real time
    until(container, lambda: container.restarts == 2)
    assert container.status()["state"]["waiting"]["reason"] == "CrashLoopBackOff"


def test_a_failing_container_backs_off_longer_each_time(make: Callable[..., Container]):
    container = make(FAILS)
    until(container, lambda: container.restarts == 3)
    waiting = container.status()["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert "back-off 20s" in waiting["message"]
    ended = container.status()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "out of luck")


@pytest.mark.parametrize(
    ("argv", "policy", "phase"),
    [(ENDS, "Never", "Succeeded"), (FAILS, "Never", "Failed"), (ENDS, "OnFailure", "Succeeded")],
)
def test_a_container_that_need_not_run_for_ever_ends_its_pod(
    argv: list[str], policy: str, phase: str, make: Callable[..., Container]
):
    container = make(argv, policy)
    until(container, lambda: container.finished)
    assert status.phase([container]) == phase


def test_a_program_that_is_not_there_keeps_the_container_waiting(make: Callable[..., Container]):
    container = make(["/no/such/program"])
    container.tick()
    assert container.restarts == 1
    assert not container.ready


def test_a_new_agent_takes_over_the_process_and_its_restart_count(
    make: Callable[..., Container],
):
    first = make(SLEEPS)
    first.restarts = 2
    first.tick()
    second = make(SLEEPS)
    assert second.adopt()
    second.tick()
    assert second.record == first.record
    assert second.restarts == 2


def test_a_record_of_another_process_with_that_number_is_not_taken(
    make: Callable[..., Container], tmp_path: Path
):
    container = make(SLEEPS)
    container.tick()
    assert container.record is not None
    stored = container.file.read_text().replace(container.record.started, "1")
    container.file.write_text(stored)
    found = records.read(container.file)
    assert found is not None
    assert not found.alive


def test_all_processes_of_a_cluster_can_be_ended(tmp_path: Path):
    file = tmp_path / "pods" / "ns" / "uid" / "c.process.json"
    record = records.start(SLEEPS, {"PATH": "/usr/bin"}, tmp_path / "log", file, 0)
    assert record.alive
    records.stop_all(tmp_path)
    assert not record.alive
    assert not file.exists()
    records.stop_all(tmp_path)


def test_a_transition_time_changes_with_its_condition_only(make: Callable[..., Container]):
    container = make(SLEEPS)
    container.tick()
    pod: dict[str, Any] = {"spec": {}, "status": {}}
    pod["status"]["conditions"] = status.conditions(pod, [container], "t1")
    again = status.conditions(pod, [container], "t2")
    assert {entry["lastTransitionTime"] for entry in again} == {"t1"}
    container.ready = False
    changed = {e["type"]: e for e in status.conditions(pod, [container], "t3")}
    assert changed["Ready"]["lastTransitionTime"] == "t3"
    assert changed["Ready"]["reason"] == "ContainersNotReady"
    assert changed["Initialized"]["lastTransitionTime"] == "t1"


def test_a_container_sees_only_devices_whose_driver_was_there_at_its_start(
    make: Callable[..., Container], tmp_path: Path
):
    device, installed = tmp_path / "root/dev/nvidia0", False
    container = make(SLEEPS)
    container.launch = replace(container.launch, devices=(device,))
    container.has_driver = lambda: installed
    container.tick()
    assert container.record is not None
    installed = True
    container.tick()
    assert not device.exists()
    records.end([container.record], grace=0.1)
    until(container, lambda: container.restarts == 1 and container.running_since is not None)
    assert device.exists()


def test_a_container_of_a_pod_that_ended_is_terminated_with_its_code(
    make: Callable[..., Container],
):
    container = make(FAILS, policy="Never")
    container.tick()
    while container.record is None or container.record.alive:
        time.sleep(0.01)
    container.end()
    assert container.state["terminated"]["exitCode"] == 3
    assert status.phase([container]) == "Failed"
    never = make(SLEEPS, policy="Never")
    never.end()
    never.tick()
    assert never.record is None
    assert never.state["terminated"]["exitCode"] == 137


def test_a_process_whose_threads_outlive_its_first_one_has_its_own_code(
    make: Callable[..., Container],
):
    container = make(LINGERS, policy="Never")
    until(container, lambda: container.finished)
    assert container.state["terminated"]["exitCode"] == 7


def test_a_sidecar_starts_first_ends_last_and_does_not_decide_how_the_pod_ended(
    make: Callable[..., Container], server: Server
):
    probe = {"httpGet": {"path": "/", "port": 1}, "periodSeconds": 0.01, "failureThreshold": 1000}
    server.status = 503
    beside = make(
        SLEEPS,
        target=lambda _: server.address,
        name="beside",
        restartPolicy="Always",
        startupProbe=probe,
    )
    main = make(ENDS, "Never")
    pod = [beside, main]

    def move_on(check: Callable[[], Any]) -> None:
        limit = time.monotonic() + 10
        while not check():
            assert time.monotonic() < limit, [each.status() for each in pod]
            tick_all(pod, grace=0.1)
            time.sleep(0.01)

    move_on(lambda: beside.running_since)
    tick_all(pod, grace=0.1)
    assert main.running_since is None
    assert status.phase(pod) == "Pending"
    initialized = {
        each["type"]: each for each in status.conditions({"spec": {}, "status": {}}, pod, "now")
    }["Initialized"]
    assert (initialized["status"], initialized["reason"]) == ("False", "ContainersNotInitialized")
    assert initialized["message"] == "containers with incomplete status: [beside]"
    server.status = 200
    move_on(lambda: main.finished and beside.finished)
    assert beside.state["terminated"]["exitCode"] == 128 + signal.SIGTERM
    assert status.phase(pod) == "Succeeded"
