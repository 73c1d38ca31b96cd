"""Turns of the clients: requests that wait in the picker while no replica has room."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gke_inference.gateway.picker_config import FlowControl, picker_config
from twin.tests.running.gateway.client import ask
from twin.tests.running.gateway.cluster import Cluster
from twin.tests.running.gateway.manifests import pool
from twin.tests.running.gateway.roles import total

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
SATURATED = {"waiting": 100, "kv": 0.99}
OBJECTIVE = "x-gateway-inference-objective"
MANY = 20


Queue = Callable[[], float]
"""Returns how many requests wait in the picker."""


@pytest.fixture
def queues(cluster: Cluster, eventually) -> Iterator[Callable[..., Queue]]:
    """A function that puts a picker with queues in front of a pool, until the end of the test."""
    started: list[str] = []

    def start(name: str, max_wait_seconds: int, *, orders_sessions: bool = False) -> Queue:
        flow = FlowControl(max_wait_seconds, orders_sessions=orders_sessions)
        content = picker_config(has_adapters=False, flow=flow)
        page = f"http://127.0.0.1:{cluster.start_picker('llama', name, content=content)}/metrics"
        cluster.apply(pool("llama", name))
        started.append(name)

        def waiting() -> float:
            return total(page, "inference_extension_flow_control_queue_size")

        eventually(
            lambda: _waits(waiting), 60
        )  # the first requests may still pass the other picker
        eventually(lambda: waiting() == 0)  # whoever asked is gone
        return waiting

    yield start
    cluster.engines.metrics.clear()
    cluster.apply(pool("llama", "llama-epp"))
    eventually(lambda: ask("llama-8b")[0] == 200, 30)
    for name in started:
        cluster.kill(name)


def _waits(waiting: Queue) -> bool:
    """Return whether a request waits in the picker, and leave."""
    with ThreadPoolExecutor(1) as client:
        asked = client.submit(ask, "llama-8b", seconds=0.5)
        while not asked.done():
            if waiting() > 0:
                return True
            time.sleep(0.02)
    return False


def sent(client: str, **headers: str) -> int:
    chosen = {"x-gateway-inference-fairness-id": client, "x-name": client, **headers}
    return ask("llama-8b", headers=chosen)[0]


def test_a_client_that_waits_behind_many_requests_of_another_is_next_but_one(
    cluster, models, queues, eventually
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    waiting = queues("llama-fair", 30)
    with ThreadPoolExecutor(MANY + 1) as clients:
        loud = [clients.submit(sent, "loud") for _ in range(MANY)]
        eventually(lambda: waiting() == MANY)
        quiet = clients.submit(sent, "quiet")
        eventually(lambda: waiting() == MANY + 1)
        before = len(cluster.engines.headers)
        cluster.engines.metrics.clear()
        assert quiet.result() == 200
        assert {each.result() for each in loud} == {200}
    reached = cluster.engines.headers[before:]
    order = [headers["x-name"] for headers in reached if "x-name" in headers]
    assert len(order) == MANY + 1
    assert order.index("quiet") <= 3  # the requests that go out together may overtake each other


def test_a_session_of_a_team_goes_before_requests_that_another_one_sent_earlier_and_no_team_gains(
    cluster, models, queues, eventually
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    waiting = queues("llama-sessions", 30, orders_sessions=True)

    def send(team: str, name: str, later: int) -> int:
        # what the gate sends: workloads/gateway/callout/internal/extproc/turns_test.go
        return sent(team, **{"x-name": name, "x-slo-ttft-ms": str(1000 * later)})

    with ThreadPoolExecutor(2 * MANY + 1) as clients:
        answers = [clients.submit(send, "loud", "agent", number) for number in range(MANY)]
        eventually(lambda: waiting() == MANY)
        answers.append(clients.submit(send, "loud", "colleague", 0))
        answers += [clients.submit(send, "quiet", "quiet", 9) for _ in range(MANY)]
        eventually(lambda: waiting() == 2 * MANY + 1)
        before = len(cluster.engines.headers)
        cluster.engines.metrics.clear()
        assert {each.result() for each in answers} == {200}
    reached = cluster.engines.headers[before:]
    order = [headers["x-name"] for headers in reached if "x-name" in headers]
    assert sorted(order) == ["agent"] * MANY + ["colleague"] + ["quiet"] * MANY
    # the agent's first, the colleague's, and one of the other team after each of them; requests
    # that go out together may overtake each other
    assert order.index("colleague") <= 5
    first = order[: MANY + 1]
    assert abs(first.count("quiet") - MANY / 2) <= 3, "teams take turns whatever their requests say"


def test_every_priority_is_served_and_the_higher_one_first(
    cluster, models, classes, queues, eventually
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    waiting = queues("llama-priorities", 30)
    batch, interactive = ({OBJECTIVE: classes[name]} for name in ("batch", "interactive"))
    with ThreadPoolExecutor(MANY + 2) as clients:
        answers = [clients.submit(sent, "batch", **batch) for _ in range(MANY)]
        eventually(lambda: waiting() == MANY)
        answers.append(clients.submit(sent, "default"))
        eventually(lambda: waiting() == MANY + 1)
        answers.append(clients.submit(sent, "interactive", **interactive))
        eventually(lambda: waiting() == MANY + 2)
        before = len(cluster.engines.headers)
        cluster.engines.metrics.clear()
        assert {each.result() for each in answers} == {200}
    reached = cluster.engines.headers[before:]
    order = [headers["x-name"] for headers in reached if "x-name" in headers]
    assert sorted(order) == ["batch"] * MANY + ["default", "interactive"]
    # the requests that go out together may overtake each other
    assert order.index("interactive") <= 3
    assert order.index("default") <= 4


def test_a_request_for_which_no_replica_gets_room_is_told_so_after_the_wait(
    cluster, models, queues
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    queues("llama-brief", 2)
    begun = time.monotonic()
    status, _, body = ask("llama-8b")
    assert status == 503
    assert 2 <= time.monotonic() - begun < 8
    assert body["error"]["type"] == "ServiceUnavailableError"
    # the callout recognizes this text (workloads/gateway/callout/internal/extproc/overload.go)
    text = "inference error: ServiceUnavailable - request timed out in queue: "
    assert text in body["error"]["message"]
