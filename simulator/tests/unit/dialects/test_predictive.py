"""Triton with ONNX models: its configuration, its answers, its errors, and its queue."""

import asyncio
import json
import runpy
import shutil
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from simulator.dialects.predictive_calls import PredictiveCalls
from simulator.dialects.predictive_metrics import ServerMetrics
from simulator.dialects.predictive_models import Model, load
from simulator.dialects.predictive_schema import classes
from simulator.dialects.predictive_server import PredictiveServer, settle
from simulator.engine.settings import EngineError
from tests.triton_grpc import grpcclient
from twin.host.paths import REPOSITORY

EXAMPLE = REPOSITORY / "docs" / "examples" / "predictive"
EXACT = runpy.run_path(str(EXAMPLE / "make_model.py"))
ROWS: Any = EXACT["payments"](64, 3)[0].astype(np.float32)
PREFIX = "[request id: <id_unknown>] "


@pytest.fixture(scope="module")
def expected() -> Any:
    """Return the probabilities that NumPy computes with the parameters of the same training."""
    return EXACT["probabilities"](EXACT["trained"](), ROWS)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return shutil.copytree(EXAMPLE / "weights" / "models", tmp_path / "models")


def served(
    folder: Path, use: Callable[[Any, Any, dict[str, Model]], Awaitable[Any]], **more: Any
) -> Any:
    """Run `use` with a client of a server, its page of metrics and its models."""

    async def main() -> Any:
        metrics = ServerMetrics()
        models = load(folder, more.get("default_batch"), metrics)
        for model in models.values():
            model.start()
        server = PredictiveServer(models, metrics, "pod-1")
        async with TestClient(TestServer(server.api)) as client:
            try:
                return await use(client, metrics, models)
            finally:
                for model in models.values():
                    await model.stop()

    return asyncio.run(main())


def tensor(rows: Any, **changed: Any) -> dict[str, Any]:
    made = {"name": "features", "datatype": "FP32", "shape": list(rows.shape)}
    return {**made, "data": rows.tolist(), **changed}


def inferred(folder: Path, body: Any, path: str = "/v2/models/fraud/infer") -> tuple[int, Any]:
    async def use(client: Any, _metrics: Any, _models: Any) -> tuple[int, Any]:
        answer = await client.post(path, data=body if isinstance(body, bytes) else json.dumps(body))
        return answer.status, json.loads(await answer.read())

    return served(folder, use)


def test_the_answer_is_the_probability_of_the_network_that_was_trained(
    repository: Path, expected: Any
):
    status, body = inferred(repository, {"id": "7", "inputs": [tensor(ROWS)]})
    assert (status, body["id"], body["model_name"], body["model_version"]) == (
        200,
        "7",
        "fraud",
        "1",
    )
    (output,) = body["outputs"]
    assert {name: output[name] for name in ("name", "datatype", "shape")} == {
        "name": "probability",
        "datatype": "FP32",
        "shape": [64, 1],
    }
    assert np.abs(np.array(output["data"])[:, None] - expected).max() < 1e-4


def test_the_classifier_ranks_most_frauds_above_other_payments():
    rows, frauds = EXACT["payments"](4000, 11)
    guess = EXACT["probabilities"](EXACT["trained"](), rows).ravel()
    pairs = guess[frauds == 1][:, None] > guess[frauds == 0][None, :]
    assert pairs.mean() > 0.8


def test_binary_tensors_have_their_length_in_a_header(repository: Path, expected: Any):
    raw = ROWS.tobytes()
    asked = tensor(ROWS, parameters={"binary_data_size": len(raw)})
    del asked["data"]
    head = json.dumps({"inputs": [asked], "parameters": {"binary_data_output": True}}).encode()

    async def use(client: Any, _metrics: Any, _models: Any) -> Any:
        answer = await client.post(
            "/v2/models/fraud/infer",
            data=head + raw,
            headers={"Inference-Header-Content-Length": str(len(head))},
        )
        return answer.headers, await answer.read()

    headers, body = served(repository, use)
    length = int(headers["Inference-Header-Content-Length"])
    (output,) = json.loads(body[:length])["outputs"]
    assert output["parameters"] == {"binary_data_size": 256}
    assert "data" not in output
    assert np.abs(np.frombuffer(body[length:], np.float32) - expected.ravel()).max() < 1e-4
    assert headers["x-gke-inference-pod"] == "pod-1"
    assert struct.calcsize("64f") == len(body[length:])


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (
            {"inputs": [tensor(ROWS[:1], name="wrong")]},
            400,
            "unexpected inference input 'wrong' for model 'fraud'",
        ),
        (
            {"inputs": []},
            400,
            f"{PREFIX}expected 1 inputs but got 0 inputs for model 'fraud'. Got input(s) [], but"
            " missing required input(s) ['features']. Please provide all required input(s).",
        ),
        (
            {"inputs": [tensor(ROWS[:1], datatype="FP64")]},
            400,
            f"{PREFIX}inference input 'features' data-type is 'FP64', but model 'fraud' expects"
            " 'FP32'",
        ),
        (
            {"id": "9", "inputs": [tensor(np.concatenate([ROWS, ROWS[:1]]))]},
            400,
            "[request id: 9] inference request batch-size must be <= 64 for 'fraud'",
        ),
        (
            {"inputs": [tensor(ROWS[:1], data=[1.0])]},
            500,
            "Failed to parse 'data' field: shape does not match true shape",
        ),
        (
            {"inputs": [tensor(ROWS[:1])], "outputs": [{"name": "score"}]},
            400,
            "unexpected inference output 'score' for model 'fraud'",
        ),
        (
            {"inputs": [tensor(ROWS[:1])], "parameters": {"sequence_id": 1}},
            400,
            "sequence_id is not available on the twin",
        ),
    ],
)
def test_what_does_not_fit_the_model_is_rejected_in_tritons_words(
    repository: Path, body: Any, status: int, message: str
):
    assert inferred(repository, body) == (status, {"error": message})


def test_other_models_methods_and_paths_are_rejected(repository: Path):
    unknown = "Request for unknown model: 'other' is not found"
    assert inferred(repository, {}, "/v2/models/other/infer") == (400, {"error": unknown})
    unknown = "Request for unknown model: 'fraud' version 2 is not found"
    path = "/v2/models/fraud/versions/2/infer"
    assert inferred(repository, {}, path) == (400, {"error": unknown})
    assert inferred(repository, {}, "/v2/models/fraud") == (405, {"error": "Method Not Allowed"})
    assert inferred(repository, {}, "/v1/models") == (404, {"error": "Not Found"})


def test_without_a_configuration_inputs_outputs_and_batch_are_derived(repository: Path):
    (repository / "fraud" / "config.pbtxt").unlink()

    async def use(client: Any, _metrics: Any, _models: Any) -> Any:
        found = [await client.get(f"/v2/models/fraud{path}") for path in ("", "/config")]
        return [await answer.json() for answer in found]

    metadata, config = served(repository, use, default_batch=16)
    assert metadata["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, 6]}]
    assert metadata["outputs"] == [{"name": "probability", "datatype": "FP32", "shape": [-1, 1]}]
    assert (config["max_batch_size"], config["dynamic_batching"]["preferred_batch_size"]) == (
        16,
        [],
    )
    assert config["input"][0]["dims"] == [6]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            'backend: "python"',
            "failed to load 'fraud': backend python is not available on the twin",
        ),
        ('name: "other"', "unexpected directory name 'fraud' for model 'other'"),
        ("max_batch: 3", 'has no field named "max_batch"'),
        (
            'output [{name: "probability" data_type: TYPE_FP64 dims: [1]}]',
            "configuration expects type TYPE_FP64 for 'probability', model provides TYPE_FP32",
        ),
    ],
)
def test_a_repository_that_triton_would_not_load_ends_the_server(
    repository: Path, config: str, message: str
):
    (repository / "fraud" / "config.pbtxt").write_text(config)
    with pytest.raises(EngineError) as refused:
        load(repository, None, ServerMetrics())
    assert message in str(refused.value)


def test_requests_wait_for_an_instance_and_are_computed_together(repository: Path):
    config = "max_batch_size: 64 dynamic_batching { max_queue_delay_microseconds: 200000 }"
    (repository / "fraud" / "config.pbtxt").write_text(config)

    async def use(_client: Any, metrics: Any, models: dict[str, Model]) -> tuple[str, str]:
        asked = [
            asyncio.create_task(models["fraud"].infer({"features": ROWS[:at]}, at))
            for at in (1, 2, 3)
        ]
        await asyncio.sleep(0.02)
        waiting = metrics.page()
        shapes = [value["probability"].shape for value in await asyncio.gather(*asked)]
        assert shapes == [(1, 1), (2, 1), (3, 1)]
        return waiting, metrics.page()

    waiting, after = served(repository, use)
    of = '{model="fraud",version="1"}'
    assert f"nv_inference_pending_request_count{of} 3.0" in waiting
    for name, value in (
        ("pending_request_count", 0),
        ("request_success", 3),
        ("count", 6),
        ("exec_count", 1),
    ):
        assert f"nv_inference_{name}{of} {value}.0" in after


def call(repository: Path, use: Callable[[Any, PredictiveCalls], Any]) -> Any:
    """Run `use` with the official client, and the server, of a repository."""

    async def main() -> Any:
        models = load(repository, None, ServerMetrics())
        for model in models.values():
            model.start()
        server = PredictiveCalls(models, "pod-1")
        port = await server.start("127.0.0.1", 0)
        try:
            with grpcclient.InferenceServerClient(f"127.0.0.1:{port}") as client:
                return await asyncio.to_thread(use, client, server)
        finally:
            await server.stop(1)
            for model in models.values():
                await model.stop()

    return asyncio.run(main())


def test_the_official_grpc_client_gets_the_same_probabilities_from_raw_and_typed_tensors(
    repository: Path, expected: Any
):
    def use(client: Any, _: Any) -> None:
        raw = grpcclient.InferInput("features", list(ROWS.shape), "FP32")
        raw.set_data_from_numpy(ROWS)
        answer = client.infer("fraud", [raw], request_id="7")
        assert np.abs(answer.as_numpy("probability") - expected).max() < 1e-4
        assert (answer.get_response().id, answer.get_response().model_version) == ("7", "1")
        typed = grpcclient.service_pb2.ModelInferRequest(model_name="fraud")
        tensor = typed.inputs.add(name="features", datatype="FP32", shape=ROWS.shape)
        tensor.contents.fp32_contents.extend(ROWS.ravel().tolist())
        found = client._client_stub.ModelInfer(typed)
        assert found.raw_output_contents[0] == answer.get_response().raw_output_contents[0]
        metadata = client.get_model_metadata("fraud", as_json=True)
        assert metadata["inputs"] == [
            {"name": "features", "datatype": "FP32", "shape": ["-1", "6"]}
        ]
        assert client.get_model_config("fraud").config.max_batch_size == 64

    call(repository, use)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"model_name": "other"}, "NOT_FOUND", "Request for unknown model: 'other' is not found"),
        ({"model_version": "9"}, "NOT_FOUND", "Request for unknown model: 'fraud' version 9"),
        ({"raw_input_contents": [b"1234"]}, "INVALID_ARGUMENT", "Expected 1536, got 4"),
        ({"raw_input_contents": [b"", b""]}, "INVALID_ARGUMENT", "but got 2 sets of data"),
        ({"outputs": [{"name": "none"}]}, "INVALID_ARGUMENT", "unexpected inference output 'none'"),
        ({"inputs": []}, "INVALID_ARGUMENT", "but got 1 sets of data"),
    ],
)
def test_a_grpc_call_that_triton_would_reject_gets_its_status_and_message(
    repository: Path, change: dict[str, Any], code: str, message: str
):
    asked: dict[str, Any] = {
        "model_name": "fraud",
        "inputs": [{"name": "features", "datatype": "FP32", "shape": list(ROWS.shape)}],
        "raw_input_contents": [ROWS.tobytes()],
        **change,
    }

    def use(client: Any, _: Any) -> tuple[str, str]:
        request = grpcclient.service_pb2.ModelInferRequest(**asked)
        with pytest.raises(grpc.RpcError) as refused:
            client._client_stub.ModelInfer(request)
        return refused.value.code().name, refused.value.details() or ""

    found = call(repository, use)
    assert found[0] == code
    assert message in found[1]


def test_the_health_service_and_readiness_follow_the_server(repository: Path):
    known = classes()

    def use(client: Any, server: PredictiveCalls) -> None:
        def check() -> int:
            answer = client._channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
            return known["inference.HealthCheckResponse"].FromString(answer).status

        assert (check(), client.is_server_live(), client.is_server_ready()) == (1, True, True)
        assert client.is_model_ready("fraud")
        assert not client.is_model_ready("other")
        server.is_ready = False
        assert (check(), client.is_server_live(), client.is_server_ready()) == (2, True, False)

    call(repository, use)


def test_the_flags_are_those_that_the_platform_writes(repository: Path):
    argv = [f"--model-repository={repository}", "--http-port=8100", "--allow-grpc=false"]
    found = settle([*argv, "--backend-config=default-max-batch-size=32"], {})
    assert (found.http_port, found.metrics_port, found.default_batch) == (8100, 8002, 32)
    assert found.grpc_port is None
    assert settle([argv[0], "--grpc-port=8101"], {}).grpc_port == 8101
    with pytest.raises(EngineError, match="failed to stat the root directory /none"):
        settle(["--model-repository=/none"], {})
    with pytest.raises(SystemExit):
        settle([*argv, "--openai-port=9000"], {})
