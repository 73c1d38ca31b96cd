"""The platform's pods on a node of the twin: launcher, spec and engine, as processes."""

import json
import os
import runpy
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from gke_inference.catalogue import engines
from gke_inference.serving.model_objects import deployments, launcher_config
from tests.model_plans import planned
from twin.cluster.agent.launch import plan
from twin.cluster.agent.launching import launcher
from twin.cluster.agent.launching.hardware import NodeHardware
from twin.cluster.agent.launching.place import Launch, Place
from twin.cluster.agent.launching.volumes import Mount
from twin.host.paths import REPOSITORY
from twin.tests.eventually import eventually
from twin.tests.running.sample import VERSION, put_weights
from twin.world.rules import Rules

pytestmark = pytest.mark.needs_tools
ADDRESS = f"127.93.{os.getpid() % 250}.7"
V6E: Any = {
    "accelerator": "tpu-v6e",
    "node_pools": ["v6e"],
    "provisioning": "on-demand",
    "topology": "2x2",
}
L4: Any = {
    "accelerator": "nvidia-l4",
    "count": 1,
    "node_pools": ["l4"],
    "provisioning": "on-demand",
}
TPU_NODE = NodeHardware("tpu", "tpu-v6e-slice", 4)
ARGS: dict[str, Any] = {
    "cache_bucket": "acme-caches",
    "compute_classes": {"any": "chat", "gpu": "chat-gpu", "tpu": "chat-tpu"},
    "context": 8192,
    "model": "llama",
    "namespace": "serving",
    "size": {"parameters_billion": 8.0},
    "replicas": {"min": 1, "max": 1},
    "service_account": "llama",
    "weights": "gs://acme-models/llama-3.1-8b",
}


class Pod:
    """The containers of a pod of the platform, planned as the agent does."""

    def __init__(self, folder: Path, rungs: list[Any], **changes: Any) -> None:
        args = {**ARGS, "rungs": rungs, **changes}
        made = planned({name: value for name, value in args.items() if value is not None})
        (workload,) = deployments(made).values()
        self.folder = folder
        self.spec: dict[str, Any] = workload["spec"]["template"]["spec"]
        files = folder / "files"
        files.mkdir()
        for name, text in launcher_config(made)["data"].items():
            (files / name).write_text(text)
        self.folders = {"launcher": files}

    def put_weights(self) -> None:
        """Put weights where the pod mounts its bucket, if it does."""
        for name, folder in self.folders.items():
            if name.startswith("bucket-"):
                put_weights(folder / "llama-3.1-8b")

    def launch(self, name: str, node: NodeHardware = TPU_NODE) -> Launch:
        (container,) = [one for one in self.spec["containers"] if one["name"] == name]
        mounts: list[Mount] = []
        for mount in container["volumeMounts"]:
            folder = self.folders.setdefault(mount["name"], self.folder / mount["name"])
            folder.mkdir(exist_ok=True)
            mounts.append(Mount(mount["mountPath"], folder, read_only=False))
        variables = {entry["name"]: entry.get("value", ADDRESS) for entry in container["env"]}
        pod = {"metadata": {"name": "p", "uid": "u"}, "status": {"podIP": ADDRESS}}
        return plan(
            container,
            Place(
                pod,
                node,
                sorted(mounts, key=lambda one: -len(one.path)),
                variables,
                self.folder / "kubeconfig",
                Rules(),
                lambda tool: Path("/bin") / tool,
            ),
        )


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def described(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}:{port}/stage", timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return {}


def stage(port: int) -> str:
    return described(port).get("stage", "")


def test_one_container_of_a_pair_serves_and_the_other_sleeps(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
):
    pod = Pod(tmp_path, [V6E, L4], form="dual-container")
    for name in ("vllm-tpu", "vllm-gpu"):
        found = pod.launch(name)
        pod.put_weights()
        environment = {**found.environment, "GKE_INFERENCE_SIM_DURATIONS": "{}"}
        started.append(subprocess.Popen(found.argv, env=environment))
    eventually(lambda: stage(8091) == "serving")
    eventually(lambda: stage(8090) == "asleep")
    with urllib.request.urlopen(f"http://{ADDRESS}:8000/v1/models", timeout=5) as answer:
        assert json.load(answer)["data"][0]["id"] == "llama"
    for process in started:
        process.terminate()
        assert process.wait(30) == 0
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"http://{ADDRESS}:8000/health", timeout=5)


def test_an_engine_ends_with_its_launcher(tmp_path: Path, started: list[subprocess.Popen[bytes]]):
    pod = Pod(tmp_path, [V6E])
    found = pod.launch("vllm")
    pod.put_weights()
    environment = {**found.environment, "GKE_INFERENCE_SIM_DURATIONS": "{}"}
    started.append(subprocess.Popen(found.argv, env=environment))
    eventually(lambda: stage(8090) == "serving")
    started[0].kill()

    def is_gone() -> bool:
        try:
            urllib.request.urlopen(f"http://{ADDRESS}:8000/health", timeout=5).close()
        except OSError:
            return True
        return False

    eventually(is_gone)


def test_a_server_whose_weights_nobody_uploaded_waits_as_on_google_cloud(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
):
    pod = Pod(tmp_path, [V6E])
    found = pod.launch("vllm")
    environment = {**found.environment, "GKE_INFERENCE_SIM_DURATIONS": "{}"}
    started.append(subprocess.Popen(found.argv, env=environment))
    eventually(lambda: stage(8090) == "weights")
    assert described(8090)["waits_for"] == "/mnt/buckets/acme-models/llama-3.1-8b/_CURRENT.json"
    pod.put_weights()
    eventually(lambda: stage(8090) == "serving")


def test_a_server_looks_for_what_it_streams_in_the_twins_own_object_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(launcher.gcs, "runs", lambda _: True)
    monkeypatch.setattr(launcher.endpoint, "url", lambda _, caller: f"http://here{caller.path}")
    pod = {"metadata": {"namespace": "serving"}, "spec": {"serviceAccountName": "llama"}}
    place = Place(pod, TPU_NODE, [], {}, tmp_path, Rules(), Path, root=tmp_path, project="acme")
    made = launcher.environment({"PATH": "/bin"}, tmp_path, place)
    assert made["STORAGE_EMULATOR_HOST"] == "http://here/as/ksa/acme/serving/llama"
    monkeypatch.setattr(launcher.gcs, "runs", lambda _: False)
    made = launcher.environment({"PATH": "/bin"}, tmp_path, place)
    assert made["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:1", "nobody answers there"


def test_what_a_launcher_waits_for_load_balancers_is_as_much_shorter_as_the_twin_is_faster(
    tmp_path: Path,
):
    (option,) = [
        word for word in Pod(tmp_path, [V6E]).launch("vllm").argv if word.startswith("--settle")
    ]
    assert option == f"--settle-seconds={10 / Rules().speed:g}"


def test_the_leader_of_a_ray_group_starts_the_launcher_from_a_script():
    script = (
        'ray start --head\nexec python3 -m engine --spec=/s --hardware=tpu -- vllm serve "$@"\n'
    )
    container = {"command": ["bash", "-c", script, "engine"], "args": ["m", "--port=$(PORT)"]}
    assert launcher.words(container, {"PORT": "8000"}) == [
        "--spec=/s",
        "--hardware=tpu",
        "--",
        "vllm",
        "serve",
        "m",
        "--port=8000",
    ]
    assert launcher.words({"command": ["vllm", "serve"], "args": ["m"]}, {}) == []


def fetched(path: str, port: int = 8000) -> str:
    with urllib.request.urlopen(f"http://{ADDRESS}:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


def chat(model: str) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    asked = urllib.request.Request(
        f"http://{ADDRESS}:8000/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - of this machine
        return json.load(answer)


@pytest.mark.parametrize("engine", ["sglang", "tgi", "triton"])
def test_a_pod_of_another_engine_serves_under_its_names_and_drains(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], engine: str
):
    pod = Pod(tmp_path, [L4], engine=engine, context=4096, size={"parameters_billion": 3.0})
    found = pod.launch(pod.spec["containers"][0]["name"], NodeHardware("gpu", "nvidia-l4", 1))
    (folder,) = (f for name, f in pod.folders.items() if name.startswith("bucket-"))
    weights = folder / "llama-3.1-8b"
    put_weights(weights)
    for name in ("llama", "tensorrt_llm"):
        (weights / VERSION / "models" / name).mkdir(parents=True)
        (weights / VERSION / "models" / name / "config.pbtxt").write_text("max_batch_size: 8\n")
    environment = {**found.environment, "GKE_INFERENCE_SIM_DURATIONS": "{}"}
    started.append(subprocess.Popen(found.argv, env=environment))
    eventually(lambda: stage(8090) == "serving")
    facts = engines.engine(engine)
    assert fetched(facts.health_path) in ("", "OK")
    assert chat("llama")["usage"]["completion_tokens"] == 8
    page = fetched(facts.metrics.path)
    for metric in filter(
        None, (facts.metrics.queue, facts.metrics.running, facts.metrics.kv_cache)
    ):
        name, labels = engines.series(metric)
        assert any(
            line.startswith(f"{name}{{") or line.startswith(f"{name} ")
            for line in page.splitlines()
            if all(f'{key}="{value}"' in line for key, value in labels.items())
        ), metric
    started[0].terminate()
    assert started[0].wait(30) == 0


def test_a_pod_of_a_predictive_model_answers_the_official_client_and_drains(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
):
    fraud: Any = {
        "context": None,
        "engine": "tritonserver",
        "served_name": "fraud",
        "size": {"parameters_billion": 0.000001},
        "task": "predict",
    }
    pod = Pod(tmp_path, [L4], **fraud)
    found = pod.launch("tritonserver", NodeHardware("gpu", "nvidia-l4", 1))
    (folder,) = (f for name, f in pod.folders.items() if name.startswith("bucket-"))
    weights = folder / "llama-3.1-8b"
    put_weights(weights)
    example = REPOSITORY / "docs" / "examples" / "predictive"
    shutil.copytree(example / "weights" / "models", weights / VERSION / "models")
    environment = {**found.environment, "GKE_INFERENCE_SIM_DURATIONS": "{}"}
    started.append(subprocess.Popen(found.argv, env=environment))
    eventually(lambda: stage(8090) == "serving")
    exact = runpy.run_path(str(example / "make_model.py"))
    rows = exact["payments"](8, 5)[0].astype(np.float32)
    given = httpclient.InferInput("features", list(rows.shape), "FP32")
    given.set_data_from_numpy(rows)
    with httpclient.InferenceServerClient(f"{ADDRESS}:8000") as client:
        assert client.is_server_ready()
        assert client.get_model_metadata("fraud")["platform"] == "onnxruntime_onnx"
        answer = client.infer("fraud", [given]).as_numpy("probability")
        with pytest.raises(InferenceServerException, match="unknown model: 'other'"):
            client.infer("other", [given])
    expected = exact["probabilities"](exact["trained"](), rows)
    assert np.abs(answer - expected).max() < 1e-4
    page = fetched("/metrics", port=8002)
    assert 'nv_inference_count{model="fraud",version="1"} 8.0' in page
    assert 'nv_inference_pending_request_count{model="fraud",version="1"} 0.0' in page
    started[0].terminate()
    assert started[0].wait(30) == 0
