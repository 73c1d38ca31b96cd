"""Adapters of the stack, all loaded from the start: replicas that were asked for one once, or not.

Simulated engines, the real picker, and the platform's own loader, pool, routes and configuration.
"""

import http.client
import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gke_inference.gateway import routes as gateway_routes
from gke_inference.gateway.picker_config import picker_config
from gke_inference.gateway.routes import RoutedModel
from gke_inference.serving.live_adapters import script
from twin.tests.eventually import eventually
from twin.tests.running.gateway.client import PORT, ask
from twin.tests.running.gateway.cluster import BLOCK, Cluster
from twin.tests.running.gateway.manifests import gateway

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
MODEL = "llama-3.1-8b"
ADAPTERS = tuple(f"skill-{number}" for number in range(6))
POD_HEADER = "x-gke-inference-pod"


@dataclass(frozen=True)
class Pool:
    """Two replicas with the same adapters behind a gateway of their own."""

    name: str
    number: int
    has_loader: bool

    @property
    def gateway(self) -> str:
        return f"127.32.{BLOCK}.{10 + self.number}"

    @property
    def pods(self) -> dict[str, str]:
        return {f"{self.name}-{n}": f"127.48.{BLOCK}.{210 + 2 * self.number + n}" for n in (0, 1)}

    @property
    def routed(self) -> RoutedModel:
        return RoutedModel(
            adapters=ADAPTERS,
            model_name=MODEL,
            pool_name=self.name,
            selector={"model": self.name},
            target_port=8000,
            timeout_seconds=120,
        )


POOLS = (Pool("asked", 0, True), Pool("unasked", 1, False))
"""A loader asks each replica for an adapter. Of the other pool, one replica was asked for one."""


def start(cluster: Cluster, pool: Pool, pod: str, address: str) -> list[Any]:
    """Start a replica, and its loader where it has one."""
    modules = [f"{name}=gs://models/{name}" for name in ADAPTERS]
    flags = ["--enable-lora", "--max-loras=4", f"--served-model-name={MODEL}", "--lora-modules"]
    simulated = {
        "GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h100-80gb",
        "GKE_INFERENCE_SIM_POD": pod,
        "GKE_INFERENCE_SIM_POD_IP": address,
    }
    told = {
        "ADAPTERS_FOLDER": "",
        "ADAPTERS_PORT": "8010",
        "BASE_NAMES": json.dumps([MODEL, *ADAPTERS]),
        "ENGINE_URL": f"http://{address}:8000",
        "GIVEN_ADAPTERS": json.dumps(ADAPTERS),
        "POD_IP": address,
        "POLL_SECONDS": "0.5",
    }
    engine = [sys.executable, "-m", "simulator.server", MODEL, *flags, *modules]
    commands = [(engine, simulated)]
    if pool.has_loader:
        commands.append(([sys.executable, "-c", script()], told))
    with (cluster.dir / "logs" / f"{pod}.log").open("wb") as log:
        return [
            subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
            for command, environment in commands
        ]


def ask_replica(address: str) -> bool:
    """Ask a replica for one adapter, without the gateway."""
    body = json.dumps({"model": ADAPTERS[0], "prompt": "hi", "max_tokens": 1}).encode()
    connection = http.client.HTTPConnection(address, 8000, timeout=30)
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.fixture(scope="module")
def pools(cluster: Cluster) -> Iterator[dict[str, int]]:
    """Both pools, each behind its gateway and its picker; the ports of the pickers' metrics."""
    running: list[Any] = []
    metrics: dict[str, int] = {}
    try:
        for pool in POOLS:
            name = pool.name
            for pod, address in pool.pods.items():
                running += start(cluster, pool, pod, address)
                cluster.pod(pod, {"model": name}, address)
            if not pool.has_loader:
                # before the picker reads its first metrics: it knows which replica was asked
                first, _ = pool.pods.values()
                eventually(lambda address=first: ask_replica(address))
            made = gateway_routes.pool(pool.routed, "default", "FailClose")
            made["spec"]["endpointPickerRef"]["name"] = f"{name}-epp"
            policies = gateway_routes.policies(
                name, "default", pool.routed.backend,
                health_path="/health", port=8000, timeout_seconds=120,
            )  # fmt: skip
            cluster.apply(made, *policies, *gateway(name, pool.gateway, PORT))
            cluster.apply(*gateway_routes.routes(pool.routed, "default", name, None))
            metrics[name] = cluster.start_picker(name, content=picker_config(has_adapters=True))
        yield metrics
    finally:
        for name in metrics:
            cluster.kill(f"{name}-epp")
        for process in running:
            process.terminate()
        for process in running:
            process.wait(20)


def answering(pool: Pool, model: str, count: int) -> Counter[str]:
    """Which pods answer some requests."""
    found: Counter[str] = Counter()
    for number in range(count):
        name = ADAPTERS[number % len(ADAPTERS)] if model == "adapters" else model
        try:
            _, headers, _ = ask(name, address=pool.gateway, max_tokens=1)
        except OSError:
            headers = {}
        found[{key.lower(): value for key, value in headers.items()}.get(POD_HEADER, "")] += 1
    return found


def known(port: int) -> float:
    """How many replicas a picker knows."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as page:
        families = text_string_to_metric_families(page.read().decode())
    (samples,) = (each.samples for each in families if each.name == "inference_pool_ready_pods")
    return samples[0].value


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)
def test_adapters_are_spread_over_replicas_that_were_asked_for_one_and_only_over_those(
    pools: dict[str, int], pool: Pool
):
    eventually(lambda: known(pools[pool.name]) == len(pool.pods), 300)
    eventually(lambda: answering(pool, "adapters", 1).keys() <= pool.pods.keys(), 300)
    found = answering(pool, "adapters", 24)
    assert set(found) == set(list(pool.pods)[: None if pool.has_loader else 1])
