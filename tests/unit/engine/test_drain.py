"""Pods of a group with expert parallelism drain together."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workloads.engine import drain, health
from workloads.engine.drain import Group, wait_idle
from workloads.engine.spec import Serving
from workloads.engine.vllm import group_hosts

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
PEERS: tuple[str, str] = ("127.0.0.2", "127.0.0.3")
LEADER = "r1-0.r1-0.models"


class Pods:
    """Launchers and metrics of the other pods of a group, on addresses of their own."""

    def __init__(self, stack: ExitStack) -> None:
        self.open: dict[str, int] = dict.fromkeys(PEERS, 0)
        self.states = {host: health.State(lambda: True) for host in PEERS}
        self.metrics: dict[str, ThreadingHTTPServer] = {}
        self.launchers: dict[str, ThreadingHTTPServer] = {}
        port, health_port = free_port(), free_port()
        for host in PEERS:
            self.states[host].enter("serving")
            self.launchers[host] = health.serve(self.states[host], host, health_port)
            self.metrics[host] = self._page(host, port)
            stack.callback(stop, self.launchers[host])
            stack.callback(stop, self.metrics[host])
        self.group = Group(PEERS, f":{port}/metrics", GAUGES, health_port)

    def _page(self, host: str, port: int) -> ThreadingHTTPServer:
        count = self.open

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                text = f'{GAUGES[0]}{{engine="0"}} {count[host]}\n{GAUGES[1]}{{engine="0"}} 0\n'
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
                pass

        server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server


def stop(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        return probe.getsockname()[1]


@pytest.fixture
def pods() -> Iterator[Pods]:
    with ExitStack() as stack:
        yield Pods(stack)


def drained(group: Group, change: Callable[[int], None], settle: float = 0.0) -> int:
    """Wait until a group is idle, with a change at each look; return the number of pauses."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        change(len(pauses))

    wait_idle(group.open_requests, lambda: len(pauses) > 20, pause, settle, 60.0)
    return len(pauses)


def test_a_pod_waits_for_the_requests_of_every_other_pod(pods):
    pods.open.update(dict(zip(PEERS, (2, 1), strict=True)))

    def change(pause: int) -> None:
        pods.open[PEERS[pause % 2]] = 0

    assert pods.group.open_requests() == 3
    assert drained(pods.group, change) == 2


def test_an_engine_that_does_not_answer_counts_as_busy_until_its_pod_has_drained(pods):
    stop(pods.metrics[PEERS[0]])

    def change(pause: int) -> None:
        if pause == 3:
            pods.states[PEERS[0]].facts["drained"] = True

    assert pods.group.open_requests() is None
    assert drained(pods.group, change) == 3


def test_a_pod_that_is_gone_is_waited_for_no_longer(pods):
    stop(pods.metrics[PEERS[1]])
    stop(pods.launchers[PEERS[1]])
    assert [pods.group.open_requests() for _ in range(3)] == [None, None, 0]


def test_a_drain_ends_at_its_limit_and_not_before_load_balancers_have_let_go():
    pauses: list[float] = []
    wait_idle(lambda: 1.0, lambda: False, pauses.append, settle=0.0, limit=0.0)
    assert pauses == []
    wait_idle(lambda: 0.0, lambda: len(pauses) == 3, pauses.append, settle=60.0, limit=90.0)
    assert len(pauses) == 3


def test_a_pod_takes_no_new_requests_once_another_one_drains(pods, monkeypatch):
    monkeypatch.setattr(drain, "_LOOK_SECONDS", 0.01)
    state, ends = health.State(lambda: True), threading.Event()
    state.enter("serving")
    follower = threading.Thread(target=pods.group.follow, args=(state, ends), daemon=True)
    follower.start()
    follower.join(0.2)
    assert state.ready()
    pods.states[PEERS[1]].enter("draining")
    follower.join(10)
    assert (follower.is_alive(), state.ready(), state.healthy()) == (False, False, True)


def test_a_server_on_its_own_has_no_group_to_wait_for():
    alone = Group((), ":8000/metrics", GAUGES, 8090)
    assert (alone.open_requests(), alone.settle_seconds) == (0, 0)
    alone.follow(health.State(lambda: True), threading.Event())


@pytest.mark.parametrize(
    ("number", "others"),
    [
        ("0", ["r1-0-1.r1-0.models", "r1-0-2.r1-0.models"]),
        ("2", [LEADER, "r1-0-1.r1-0.models"]),
    ],
)
def test_the_pods_of_a_group_know_each_other_by_their_leader(number, others):
    serving = Serving(
        "gpu", "m", "/m", 1, 1024, hosts=3, all2all="deepep_low_latency", hybrid_load_balancing=True
    )
    environment = {"LWS_LEADER_ADDRESS": LEADER, "LWS_WORKER_INDEX": number}
    assert group_hosts(serving, environment) == others
    assert group_hosts(serving, {}) == []
