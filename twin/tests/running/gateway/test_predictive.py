"""A predictive model behind the gateway: the official client, a canary, and what stays closed."""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from gke_inference.catalogue.engines import engine
from gke_inference.gateway import routes as gateway_routes
from gke_inference.gateway.canary import canary_model, pinned_routes
from gke_inference.gateway.routes import RoutedCanary, RoutedModel
from tests.triton_grpc import grpcclient
from twin.host.paths import REPOSITORY
from twin.tests.running.gateway.client import PORT, ask
from twin.tests.running.gateway.cluster import BLOCK, Cluster
from twin.tests.running.gateway.house import called, chain, traffic
from twin.tests.running.gateway.manifests import gateway, service
from twin.tests.running.gateway.test_callout import ALL, DUPLEX, Callouts, bearer

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
EXAMPLE = REPOSITORY / "docs" / "examples" / "predictive"
EXACT = runpy.run_path(str(EXAMPLE / "make_model.py"))
ROWS: Any = EXACT["payments"](4, 5)[0].astype(np.float32)
GATEWAY = f"127.32.{BLOCK}.40"
GATED = f"127.32.{BLOCK}.41"
"""Address of the gateway whose clients need keys."""
PODS = {"fraud": f"127.48.{BLOCK}.250", "fraud-v2": f"127.48.{BLOCK}.251"}
INFER = "/v2/models/fraud/infer"
CANARY = RoutedCanary(
    percent=50, pool_name="fraud-v2", selector={"model": "fraud-v2"}, version="v2"
)
MODEL = RoutedModel(
    canary=CANARY,
    engine="tritonserver",
    grpc_port=8001,
    is_picked=False,
    is_predictive=True,
    model_name="fraud",
    pool_name="fraud",
    selector={"model": "fraud"},
    target_port=8000,
    timeout_seconds=60,
)


@pytest.fixture(scope="module")
def endpoint(cluster: Cluster) -> Iterator[str]:
    """The gateway of a model and its canary, a replica each."""
    running: list[subprocess.Popen[bytes]] = []
    facts = engine("tritonserver")
    try:
        for name, address in PODS.items():
            variables = {"GKE_INFERENCE_SIM_POD": name, "GKE_INFERENCE_SIM_POD_IP": address}
            repository = f"--model-repository={EXAMPLE / 'weights' / 'models'}"
            command = [sys.executable, "-m", "simulator.dialects", "tritonserver", repository]
            with (cluster.dir / "logs" / f"{name}.log").open("wb") as log:
                environment = {**os.environ, **variables}
                running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            cluster.pod(name, {"model": name}, address)
        for model in (MODEL, canary_model(MODEL, CANARY)):
            policies = gateway_routes.policies(
                model.pool_name, "default", model.backend,
                health_path=facts.health_path, port=8000, timeout_seconds=60,
            )  # fmt: skip
            cluster.apply(gateway_routes.pool(model, "default", "FailOpen"), *policies)
            calls = gateway_routes.policies(
                gateway_routes.grpc_name(model.pool_name), "default", model.backend,
                health_path="", port=8001, timeout_seconds=60, is_grpc=True,
            )  # fmt: skip
            cluster.apply(gateway_routes.grpc_service(model, "default", 8001), *calls)
        cluster.apply(*gateway("fraud", GATEWAY, PORT))
        cluster.apply(*gateway_routes.routes(MODEL, "default", "fraud", None))
        cluster.apply(*pinned_routes(MODEL, CANARY, "default", "fraud", None))
        cluster.apply(*gateway("keys", GATED, PORT))
        routes = gateway_routes.routes(MODEL, "default", "keys", None)
        for each in routes:
            each["metadata"]["name"] += "-keys"
        cluster.apply(*routes)
        yield f"{GATEWAY}:{PORT}"
    finally:
        for process in running:
            process.kill()
            process.wait()


def asked(**headers: str) -> tuple[int, str]:
    """Return the status of a prediction, and the replica that answers."""
    tensor = {"name": "features", "datatype": "FP32", "shape": [4, 6], "data": ROWS.tolist()}
    body = json.dumps({"inputs": [tensor]})
    try:
        status, found, _ = ask(path=INFER, address=GATEWAY, headers=headers, body=body)
    except OSError:
        return 0, ""
    return status, found.get("x-gke-inference-pod", "")


def test_the_official_client_gets_probabilities_and_versions_by_weight_and_by_header(
    endpoint: str, eventually: Any
):
    for version, pod in (("stable", "fraud"), ("v2", "fraud-v2")):
        pinned = {"x-model-version": version}
        eventually(lambda pinned=pinned, pod=pod: asked(**pinned) == (200, pod), 300)
    given = httpclient.InferInput("features", [4, 6], "FP32")
    given.set_data_from_numpy(ROWS)
    with httpclient.InferenceServerClient(endpoint) as client:
        assert client.is_model_ready("fraud")
        assert client.get_model_metadata("fraud")["outputs"][0]["shape"] == [-1, 1]
        answer = client.infer("fraud", [given]).as_numpy("probability")
        for closed in (
            lambda: client.load_model("fraud"),
            lambda: client.update_trace_settings("fraud", {"trace_level": ["TENSORS"]}),
        ):
            with pytest.raises(InferenceServerException) as refused:
                closed()
            assert refused.value.status() == "404"
    expected = EXACT["probabilities"](EXACT["trained"](), ROWS)
    assert np.abs(answer - expected).max() < 1e-4
    share = sum(asked()[1] == "fraud-v2" for _ in range(100))
    assert 25 <= share <= 75  # of 100 at 50 %: outside once in a million runs


def test_a_body_larger_than_the_router_holds_reaches_the_model(endpoint: str, eventually: Any):
    eventually(lambda: asked()[0] == 200, 300)
    rows = np.zeros((600_000, 6), np.float32)  # 14 MB
    given = httpclient.InferInput("features", list(rows.shape), "FP32")
    given.set_data_from_numpy(rows)
    with (
        httpclient.InferenceServerClient(endpoint) as client,
        pytest.raises(InferenceServerException, match="batch-size must be <= 64"),
    ):
        client.infer("fraud", [given])


def features(rows: Any = ROWS) -> list[Any]:
    given = grpcclient.InferInput("features", list(rows.shape), "FP32")
    given.set_data_from_numpy(rows)
    return [given]


def predicted(
    address: str, model: str = "fraud", rows: Any = ROWS, **headers: str
) -> tuple[str, Any]:
    """Return the status of a prediction over gRPC, and the probabilities or the message."""
    with grpcclient.InferenceServerClient(address) as client:
        try:
            answer = client.infer(model, features(rows), headers=headers, client_timeout=20)
        except InferenceServerException as error:
            return str(error.status()).removeprefix("StatusCode."), error.message()
    return "OK", answer.as_numpy("probability")


def test_the_official_grpc_client_gets_the_same_probabilities_and_a_version_by_its_header(
    endpoint: str, eventually: Any
):
    eventually(lambda: predicted(endpoint)[0] == "OK", 300)
    with grpcclient.InferenceServerClient(endpoint) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("fraud")
        metadata = client.get_model_metadata("fraud", as_json=True)
        assert metadata["outputs"][0]["shape"] == ["-1", "1"]
        assert client.get_model_config("fraud").config.backend == "onnxruntime"
        for closed in (
            lambda: client.load_model("fraud"),
            client.get_server_metadata,
            lambda: client.get_inference_statistics("fraud"),
        ):
            with pytest.raises(InferenceServerException) as refused:
                closed()
            assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
    expected = EXACT["probabilities"](EXACT["trained"](), ROWS)
    for headers in ({}, {"x-model-version": "stable"}, {"x-model-version": "v2"}):
        status, answer = predicted(endpoint, **headers)
        assert status == "OK"
        assert np.abs(answer - expected).max() < 1e-4
    rows = np.zeros((600_000, 6), np.float32)  # 14 MB, which the router does not hold
    status, message = predicted(endpoint, rows=rows)
    assert (status, "batch-size must be <= 64" in message) == ("INVALID_ARGUMENT", True)
    assert predicted(endpoint, "unknown")[0] == "UNIMPLEMENTED"  # without keys, nothing knows names


def test_a_gate_checks_the_key_the_model_the_limit_and_the_size_of_a_grpc_call(
    cluster: Cluster, endpoint: str, tmp_path: Path, eventually: Any
):
    del endpoint
    gated = f"{GATED}:{PORT}"
    callouts = Callouts(tmp_path, models=["fraud"], requests_per_minute=4)
    extension = called("callout", supportedEvents=ALL, timeout="1s", **DUPLEX)
    guard = traffic(chain("all", extension))
    guard["apiVersion"] = "networking.gke.io/v1"
    guard["metadata"] = {"name": "keys", "namespace": "default"}
    guard["spec"]["targetRefs"][0]["name"] = "keys"
    try:
        for address in callouts.addresses:
            cluster.pod(f"callout-{address}", {"app": "callout"}, address)
        cluster.apply(service("callout", {"app": "callout"}, 9010), guard)
        eventually(lambda: predicted(gated)[0] == "UNAUTHENTICATED", 60)
        key = {"authorization": bearer("ada")["Authorization"]}
        eventually(lambda: predicted(gated, "other", **key)[0] == "NOT_FOUND", 60)
        _, message = predicted(gated, "other", **key)
        assert message == "The model `other` does not exist or you do not have access to it."
        large = np.zeros((64 * 2**20 // 24 + 1, 6), np.float32)  # the message exceeds 64 MiB
        assert predicted(gated, rows=large, **key)[0] == "RESOURCE_EXHAUSTED"
        statuses = [predicted(gated, **key)[0] for _ in range(6)]
        assert statuses == [*["OK"] * 4, *["RESOURCE_EXHAUSTED"] * 2]
        with grpcclient.InferenceServerClient(gated) as client:
            assert client.is_server_ready(headers=key)  # no model: not a request of the team
        records = [
            json.loads(line)
            for file in tmp_path.glob("callout-*.log")
            for line in file.read_text().splitlines()
            if line.startswith("{") and '"key_id"' in line
        ]
        counted = [each["status"] for each in records if each["model"] == "fraud"]
        assert sorted(counted) == [200, 200, 200, 200, 429, 429]
        assert {each["team"] for each in records} == {"research"}
    finally:
        callouts.stop()
        cluster.delete("networking.gke.io/v1", "GCPTrafficExtension", "keys")
