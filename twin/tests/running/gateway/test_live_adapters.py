"""Adapters uploaded to a bucket while a model serves: simulated engines, their loaders, the picker.

Routes, pool, picker configuration and loader are the platform's own.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gke_inference.gateway import routes as gateway_routes
from gke_inference.gateway.picker_config import picker_config
from gke_inference.gateway.routes import BASE_MODEL_HEADER, RoutedModel
from gke_inference.serving.live_adapters import script
from twin.engines.real.tiny_model import write_adapter
from twin.host import processes
from twin.providers.gcp.effects import gcs
from twin.tests.running.gateway.client import PORT, ask
from twin.tests.running.gateway.cluster import BLOCK, Cluster
from twin.tests.running.gateway.manifests import gateway

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
GATEWAY = f"127.32.{BLOCK}.7"
PODS = {"live-0": f"127.48.{BLOCK}.201", "live-1": f"127.111.{BLOCK}.202"}
MODEL = "llama-3.1-8b"
POD_HEADER = "x-gke-inference-pod"
LIVE = RoutedModel(
    has_live_adapters=True,
    model_name=MODEL,
    pool_name="live",
    selector={"model": "live"},
    target_port=8000,
    timeout_seconds=120,
)


class Bucket:
    """The bucket, as a client of Cloud Storage sees it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._paths = cluster.paths
        self._folder = folder
        gcs.create_bucket(self._paths, "models", "p")
        self.mounted = self._paths.gcs / "models" / "live-adapters"

    def upload(self, name: str, rank: int = 8) -> None:
        folder = write_adapter(self._folder / name, rank=rank)
        for file in sorted(folder.iterdir()):
            path = f"live-adapters/{name}/{file.name}"
            gcs.upload(self._paths, "models", path, file.read_bytes(), "application/octet-stream")


def start(cluster: Cluster, bucket: Bucket, pod: str, address: str) -> list[Any]:
    flags = ["--enable-lora", "--max-loras=4", "--max-num-seqs=4", f"--served-model-name={MODEL}"]
    simulated = {
        "GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h100-80gb",
        "GKE_INFERENCE_SIM_POD": pod,
        "GKE_INFERENCE_SIM_POD_IP": address,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    }
    told = {
        "ADAPTERS_FOLDER": str(bucket.mounted),
        "ADAPTERS_PORT": "8010",
        "BASE_NAMES": json.dumps([MODEL]),
        "ENGINE_URL": f"http://{address}:8000",
        "POD_IP": address,
        "POLL_SECONDS": "0.5",
    }
    commands = {
        "engine": ([sys.executable, "-m", "simulator.server", MODEL, *flags], simulated),
        "loader": ([sys.executable, "-c", script()], told),
    }
    made: list[Any] = []
    for name, (command, environment) in commands.items():
        with (cluster.dir / "logs" / f"{pod}-{name}.log").open("wb") as log:
            made.append(
                subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
            )
    return made


def adapters(address: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address, 8010, timeout=10)
    try:
        connection.request("GET", "/adapters")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A model of two replicas with live adapters, behind a gateway; and its bucket."""
    cluster.paths.create()
    found = Bucket(cluster, tmp_path_factory.mktemp("adapters"))
    running: list[Any] = []
    try:
        for pod, address in PODS.items():
            running += start(cluster, found, pod, address)
            cluster.pod(pod, {"model": "live"}, address)
        pool = gateway_routes.pool(LIVE, "default", "FailClose")
        pool["spec"]["endpointPickerRef"]["name"] = "live-epp"
        policies = gateway_routes.policies(
            "live", "default", LIVE.backend, health_path="/health", port=8000, timeout_seconds=120
        )
        cluster.apply(pool, *policies, *gateway("live", GATEWAY, PORT))
        cluster.apply(*gateway_routes.routes(LIVE, "default", "live", None))
        cluster.start_picker("live", content=picker_config(has_adapters=True))
        yield found
        cluster.kill("live-epp")
    finally:
        for process in running:
            process.terminate()
            process.wait(20)
        processes.stop(cluster.paths, gcs.NAME)


def request(model: str, base: bool = True, **fields: Any) -> tuple[int, str, Any]:
    """Ask; return status, the pod that answered, and the body."""
    headers = {BASE_MODEL_HEADER: MODEL} if base else {}
    body = {"max_tokens": 2, "prompt": uuid.uuid4().hex, **fields}
    status, sent, answer = ask(model, address=GATEWAY, headers=headers, **body)
    return status, {k.lower(): v for k, v in sent.items()}.get(POD_HEADER, ""), answer


def is_up() -> bool:
    """Whether the model answers through the gateway; it is not there at first."""
    try:
        return request(MODEL)[0] == 200
    except OSError:
        return False


def test_a_new_adapter_is_answered_without_a_restart_and_no_request_is_lost(bucket, eventually):
    eventually(is_up, 200)
    eventually(lambda: {request(MODEL)[0] for _ in range(20)} == {200}, 100)  # both replicas are in
    assert request("fresh")[0] == 404
    found: Counter[Any] = Counter()
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            try:
                found[request(MODEL)[0]] += 1
            except OSError as error:
                found[repr(error)] += 1

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        bucket.upload("fresh")
        eventually(lambda: request("fresh")[0] == 200, 60)
        for address in PODS.values():
            eventually(lambda address=address: adapters(address)["loaded"] == ["fresh"], 60)
        assert {request("fresh")[0] for _ in range(10)} == {200}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(found) == {200}, found
    assert request("fresh", base=False)[0] == 404, "no route knows it without its model"


def test_what_cannot_be_loaded_is_told_by_the_loader_and_is_unknown_to_clients(bucket, eventually):
    bucket.upload("large", rank=64)
    for address in PODS.values():
        failed = eventually(lambda address=address: adapters(address)["failed"], 60)
        assert "LoRA rank 64 is greater than max_lora_rank 16." in failed["large"]
    status, _, body = request("large")
    assert (status, body["error"]["param"]) == (404, "model")


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/load_lora_adapter",
        "/v1/load%5Flora_adapter",
        "/v1/load_lora_adapter/",
        "/v1//load_lora_adapter",
        "/v1/chat/completions/../../load_lora_adapter",
        "/metrics",
    ],
)
def test_nobody_loads_an_adapter_through_the_gateway(path, eventually):
    eventually(is_up, 200)
    body = json.dumps({"model": MODEL, "lora_name": "mine", "lora_path": "/etc"})
    headers = {BASE_MODEL_HEADER: MODEL}
    status, sent, answer = ask(MODEL, path, address=GATEWAY, headers=headers, body=body)
    assert status == 404
    assert POD_HEADER not in {name.lower() for name in sent}
    assert "No adapter found" not in str(answer)


class Busy:
    """Long requests to one replica, until they are let go."""

    def __init__(self) -> None:
        self._open: list[http.client.HTTPConnection] = []

    def start(self, address: str) -> None:
        connection = http.client.HTTPConnection(address, 8000, timeout=60)
        body = {"model": MODEL, "prompt": uuid.uuid4().hex, "max_tokens": 8000}
        body |= {"ignore_eos": True, "stream": True}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        self._open.append(connection)

    def end(self) -> None:
        for connection in self._open:
            connection.close()


def use(address: str, adapter: str) -> bool:
    """Let a replica, past the gateway, compute an adapter: the last one is what the picker sees."""
    connection = http.client.HTTPConnection(address, 8000, timeout=60)
    try:
        body = json.dumps({"model": adapter, "prompt": "x", "max_tokens": 1})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    finally:
        connection.close()


def answered_by(count: int) -> Counter[str]:
    """Which pods answer requests for an adapter; one sent before the picker looked may wait."""
    found: Counter[str] = Counter()
    for _ in range(count):
        try:
            found[request("wanted")[1]] += 1
        except TimeoutError:
            found["nobody"] += 1
            break
    return found


def test_requests_go_where_their_adapter_is_used_and_elsewhere_when_that_is_full(
    bucket, eventually
):
    for name in ("wanted", "other"):
        bucket.upload(name)
        for address in PODS.values():
            eventually(lambda a=address, n=name: n in adapters(a)["loaded"], 60)
    home, other = PODS

    def goes_home() -> bool:
        # one that went elsewhere before the picker looked made the other replica as good: again
        assert use(PODS[other], "other")
        assert use(PODS[home], "wanted")
        return answered_by(6) == {home: 6}

    eventually(goes_home, 100)
    busy = Busy()
    try:
        for _ in range(12):  # four run, the others wait
            busy.start(PODS[home])
        eventually(lambda: answered_by(6) == {other: 6}, 200)
    finally:
        busy.end()
