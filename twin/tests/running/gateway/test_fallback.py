"""A relay as a replica of a pool: the real picker prefers engines while they have room."""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gke_inference.gateway.picker_config import picker_config
from twin.host.ports import free_port
from twin.model_providers.dialects import Grants
from twin.model_providers.server import Providers, serve
from twin.tests.eventually import eventually
from twin.tests.metric_pages import total
from twin.tests.running.gateway.client import PORT, ask
from twin.tests.running.gateway.cluster import BLOCK, Cluster
from twin.tests.running.gateway.manifests import (
    gateway,
    health_check,
    model_rules,
    pool,
    route,
)
from twin.tests.tools import needed
from twin.toolchain import tool

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
ADDRESS = f"127.32.{BLOCK}.77"
RELAY = f"127.48.{BLOCK}.200"
HOST = "llm.example.com"
COUNT = "/api/v1/namespaces/default/configmaps/relay-spill-spent"
ENDED_WAITS = 'relay_waits_total{result="engine"}'
LONG = "Which keys open which doors, and who has them? " * 40
FALLBACK = {
    "after_queue": 8,
    "count": "relay-spill-spent",
    "input_usd_per_million": 0,
    "metrics": {
        "cache_info": "vllm:cache_config_info",
        "kv_cache": "vllm:kv_cache_usage_perc",
        "queue": "vllm:num_requests_waiting",
        "running": "vllm:num_requests_running",
    },
    "model": "spill-8b",
    "monthly_usd": 1.0,
    "namespace": "default",
    "output_usd_per_million": 1000,
    "port": 8000,
    "refused_objectives": ["spill-batch"],
    "selector": {"component": "engine", "model": "spill"},
}


class Pool:
    """A pool of two engines and a relay, whose provider is a server of the test."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        everything = Grants(lambda _: True, lambda _: True, lambda _host, _account: True)
        self.providers = Providers(everything)
        self.elsewhere = serve(self.providers, free_port())
        threading.Thread(target=self.elsewhere.serve_forever, args=(0.05,), daemon=True).start()
        labels = {"component": "engine", "model": "spill"}
        self.engines = [cluster.pod(f"spill-{n}", labels) for n in range(2)]
        self.relay: subprocess.Popen[bytes] | None = None
        self.metrics_port = free_port()
        cluster.apply(
            pool("spill", "spill-epp", "FailClose"),
            health_check("spill"),
            *gateway("spill", ADDRESS, PORT),
            route("spill", "spill", model_rules({"spill-8b": "spill"})),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "relay-spill-spent", "namespace": "default"},
            },
        )
        cluster.start_picker("spill", content=picker_config(has_adapters=False))
        self.start(1.0)
        cluster.pod("relay-spill", {"component": "relay", "model": "spill"}, RELAY)

    def start(self, monthly_usd: float) -> None:
        """Start the relay with a budget."""
        place = {"name": "t", "url": f"https://{HOST}/v1", "model": "m", "weight": 1}
        backend = {"timeout_seconds": 10, "targets": [{**place, "auth": {"kind": "none"}}]}
        self.run(
            {
                "backends": {"spill-8b": backend},
                "fallback": {**FALLBACK, "monthly_usd": monthly_usd},
            }
        )

    def run(self, settings: dict[str, Any]) -> None:
        """Start the relay with settings."""
        self.stop()
        file = self.folder / "relay.yaml"
        file.write_text(json.dumps(settings))
        server = self.cluster.kube.server.removeprefix("https://").split(":")
        config = json.loads(self.cluster.kubeconfig.read_text())
        (self.folder / "token").write_text(config["users"][0]["user"]["token"])
        authority = self.cluster.dir / "certs" / "apiserver.crt"
        (self.folder / "ca.crt").write_text(authority.read_text())
        argv = [
            *(str(tool("relay")), f"--config={file}", f"--address={RELAY}"),
            *(f"--account={self.folder}", f"--metrics-port={self.metrics_port}", "--drain=0s"),
        ]
        environment = {
            "KUBERNETES_SERVICE_HOST": server[0],
            "KUBERNETES_SERVICE_PORT": server[1],
            "RELAY_HOSTS": f"*=http://127.0.0.1:{self.elsewhere.server_address[1]}",
        }
        with (self.folder / "relay.log").open("ab") as log:
            self.relay = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)

    def hold(self, requests: int) -> None:
        """Start the relay without a backend: requests wait for an engine."""
        settings = {key: FALLBACK[key] for key in ("metrics", "model", "namespace", "port")}
        wait = {"expected_seconds": 90, "requests": requests, "seconds": 30}
        of_pool = {**settings, "selector": FALLBACK["selector"], "wait": wait}
        self.run({"backends": {}, "fallback": of_pool})

    def stop(self) -> None:
        if self.relay is not None:
            self.relay.terminate()
            assert self.relay.wait(20) == 0

    def close(self) -> None:
        self.stop()
        self.cluster.kill("spill-epp")
        self.elsewhere.shutdown()
        self.elsewhere.server_close()

    def queues(self, first: int, second: int, kv: float = 0.4) -> None:
        """Give the engines queues."""
        for address, waiting in zip(self.engines, (first, second), strict=True):
            self.cluster.engines.metrics[address] = {"waiting": waiting, "kv": kv}

    def asked(self, count: int = 12, **fields: Any) -> Counter[Any]:
        """Return how many of some requests each engine, the relay (`elsewhere`) or nobody took."""
        found: Counter[Any] = Counter()
        for _ in range(count):
            status, _, body = ask("spill-8b", address=ADDRESS, max_tokens=1, **fields)
            if status != 200:
                found[status] += 1
            else:
                found[body.get("served_by", "elsewhere")] += 1
        return found

    def ready(self, is_ready: bool) -> None:
        """Make the engines ready, or not."""
        now = "2026-01-01T00:00:00Z"
        status = "True" if is_ready else "False"
        condition = {"type": "Ready", "status": status, "lastTransitionTime": now}
        for number in range(2):
            path = f"/api/v1/namespaces/default/pods/spill-{number}/status"
            self.cluster.kube.patch(path, {"status": {"conditions": [condition]}}, "merge")

    def metric(self, name: str) -> float:
        return total(f"http://{RELAY}:{self.metrics_port}/metrics", name)

    def is_ready(self) -> bool:
        """Return whether the pool may count on the relay."""
        try:
            return self.metric("relay_fallback_ready") == 1
        except OSError:
            return False

    def spent(self) -> float:
        data = self.cluster.kube.get(COUNT).get("data") or {}
        return int(data.get("spent_nano_usd", 0)) / 1e9


@pytest.fixture(scope="module")
def found(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    needed("relay")
    made = Pool(cluster, tmp_path_factory.mktemp("relay"))
    try:
        made.queues(0, 0)
        eventually(lambda: made.asked(1).keys() <= {*made.engines}, 30)
        yield made
    finally:
        made.close()


def until(check: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not check():
        assert time.monotonic() < limit
        time.sleep(0.1)


def test_a_pool_with_room_never_asks_its_fallback(found: Pool):
    for queues in ((0, 0), (0, 30), (7, 7), (7, 500)):
        found.queues(*queues, kv=0.99)
        time.sleep(0.6)
        taken = found.asked()
        assert sum(taken[engine] for engine in found.engines) == 12, (queues, taken)


def test_a_fallback_does_not_change_which_engine_is_chosen(found: Pool):
    found.queues(1, 0)
    time.sleep(0.6)
    assert found.asked() == {found.engines[1]: 12}


def test_a_pool_whose_engines_all_queue_spills_and_comes_back(found: Pool):
    found.queues(8, 9, kv=0.95)
    until(lambda: found.asked(4) == {"elsewhere": 4})
    assert found.metric("relay_fallback_open") == 1
    found.queues(3, 9, kv=0.95)
    until(lambda: found.asked(4)["elsewhere"] == 0)
    assert found.metric("relay_fallback_open") == 0


def test_a_prompt_that_spilled_returns_with_the_others(found: Pool):
    found.queues(8, 8, kv=0.95)
    until(lambda: found.asked(4, prompt=LONG) == {"elsewhere": 4})
    found.queues(0, 0, kv=0.5)
    until(lambda: found.asked(4, prompt=LONG)["elsewhere"] == 0)


def test_a_pool_without_any_engine_spills_and_comes_back(found: Pool):
    found.queues(0, 0)
    found.ready(False)
    try:
        until(lambda: found.asked(4) == {"elsewhere": 4})
        until(lambda: found.metric("relay_fallback_engines") == 0)
    finally:
        found.ready(True)
    until(lambda: found.asked(4)["elsewhere"] == 0)


def test_requests_of_batch_are_refused_and_not_paid_for(found: Pool):
    found.queues(8, 8, kv=0.95)
    until(lambda: found.asked(4) == {"elsewhere": 4})
    before = len(found.providers.requests)
    taken = found.asked(3, headers={"x-gateway-inference-objective": "spill-batch"})
    assert taken == {429: 3}
    assert len(found.providers.requests) == before


def test_a_budget_outlives_the_relay_and_ends_the_fallback(found: Pool):
    found.queues(8, 8, kv=0.95)
    until(lambda: found.asked(4) == {"elsewhere": 4})
    until(lambda: found.spent() > 0 and found.spent() == found.metric("relay_fallback_spent"))
    before = found.spent()
    found.start(before + 0.0045)  # four tokens of an answer, and less than five
    until(found.is_ready)
    assert found.metric("relay_fallback_spent_dollars") == pytest.approx(before)
    taken = found.asked(8)
    assert taken["elsewhere"] == 4, taken
    assert taken[503] + sum(taken[engine] for engine in found.engines) == 4, taken
    until(lambda: found.spent() == pytest.approx(before + 0.004))


def test_a_request_waits_for_the_first_engine_of_a_pool_without_a_backend(found: Pool):
    found.queues(0, 0)
    found.hold(requests=1)
    found.ready(False)
    try:
        until(lambda: found.is_ready() and found.metric("relay_fallback_open") == 1)
        with ThreadPoolExecutor(1) as pool_of_one:
            waits = pool_of_one.submit(ask, "spill-8b", address=ADDRESS, max_tokens=1)
            until(lambda: found.metric("relay_waiting_requests") == 1)
            status, headers, body = ask("spill-8b", address=ADDRESS, max_tokens=1)
            assert (status, body["error"]["code"]) == (503, "model_starting")
            assert 60 < int({k.lower(): v for k, v in headers.items()}["retry-after"]) <= 90
            assert not waits.done()
            found.ready(True)
            status, _, body = waits.result(20)
        assert status == 200
        assert body["served_by"] in found.engines
    finally:
        found.ready(True)
    assert found.metric("relay_wakes_total") >= 2
    until(lambda: found.metric("relay_fallback_open") == 0)
    assert found.asked(4).keys() <= {*found.engines}


def test_no_request_is_lost_while_all_engines_of_a_pool_go_and_come_back(found: Pool):
    found.queues(0, 0)
    found.hold(requests=8)
    until(found.is_ready)
    statuses: Counter[int] = Counter()
    ended = threading.Event()

    def ask_on() -> None:
        while not ended.is_set():
            statuses[ask("spill-8b", address=ADDRESS, max_tokens=1)[0]] += 1

    with ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(ask_on) for _ in range(4)]
        try:
            for waits in (1, 2, 3, 4):
                before = statuses[200]
                until(lambda before=before: statuses[200] >= before + 20)
                found.ready(False)
                until(lambda: found.metric("relay_waiting_requests") > 0)
                found.ready(True)
                until(lambda least=waits: found.metric(ENDED_WAITS) >= least)
        finally:
            found.ready(True)
            ended.set()
        for each in asking:
            each.result(30)
    assert set(statuses) == {200}, statuses
