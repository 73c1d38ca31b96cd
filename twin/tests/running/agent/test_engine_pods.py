"""Engine pods on a real control plane: address, probes, restarts, drain, deletion."""

import json
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from twin.tests.eventually import eventually
from twin.tests.running.agent.conftest import Agent
from twin.tests.running.agent.objects import condition, engine, grant_bucket, node, pod, remove
from twin.wire.kube import Kube, KubeError
from twin.world.store import Store, new_record

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
JsonObject = dict[str, Any]


class Pods:
    """Pods of one namespace."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.namespace = namespace

    def create(self, obj: JsonObject) -> None:
        self.kube.post(self.path, obj)

    def get(self, name: str) -> JsonObject:
        return self.kube.get(f"{self.path}/{name}")

    def ready(self, name: str) -> JsonObject:
        def check() -> JsonObject | None:
            found = self.get(name)
            return found if condition(found, "Ready") == "True" else None

        return eventually(check, 40)

    def states(self, name: str) -> Iterator[JsonObject]:
        """Yield each status of a pod's container that the API server has, for 100 seconds."""
        stop = threading.Event()
        end = threading.Timer(100, stop.set)
        end.daemon = True
        end.start()
        for _, found in self.kube.watch(self.path, stop):
            if found.get("metadata", {}).get("name") == name:
                yield from found["status"].get("containerStatuses", [])[:1]

    def gone(self, name: str) -> bool:
        try:
            self.get(name)
        except KubeError as error:
            return error.status == 404
        return False

    def ask(self, name: str, body: JsonObject | None = None, path: str = "/v1/completions") -> Any:
        address = self.get(name)["status"]["podIP"]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{address}:8000{path}", data)
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return json.loads(answer.read())

    def metrics(self, name: str) -> str:
        address = self.get(name)["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:8000/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.startswith("vllm:num_requests_running{")]
        return f"running {float(found[0].rsplit(' ', 1)[1]):.0f}"

    def pid(self, name: str) -> int:
        return int(self.get(name)["status"]["containerStatuses"][0]["containerID"][7:])


@pytest.fixture
def pods(kube: Kube, namespace: str) -> Pods:
    return Pods(kube, namespace)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_an_engine_pod_becomes_ready_on_its_own_address_and_answers(pods: Pods):
    pods.create(pod("one", engine(resources={"limits": {"nvidia.com/gpu": "1"}})))
    found = pods.ready("one")
    assert found["status"]["podIP"].startswith("127.")
    answer = pods.ask("one", {"prompt": "hello", "max_tokens": 6})
    assert answer["usage"]["completion_tokens"] == 6
    events = pods.kube.list(f"/api/v1/namespaces/{pods.namespace}/events")
    assert {"Scheduled", "Pulled", "Started"} <= {event["reason"] for event in events}


def test_a_deleted_engine_pod_goes_with_its_process(pods: Pods):
    hook = {"preStop": {"exec": {"command": ["sleep", "30"]}}}
    pods.create(pod("gone", engine(lifecycle=hook)))
    pods.ready("gone")
    pid = pods.pid("gone")
    pods.kube.delete(f"{pods.path}/gone")
    eventually(lambda: pods.gone("gone"))
    assert not alive(pid)


def test_a_pod_deleted_before_it_has_an_address_goes(pods: Pods):
    names = [f"early-{number}" for number in range(5)]
    deleted: list[JsonObject] = []
    for name in names:
        pods.create(pod(name, engine(), nodeName="l4-1"))
        deleted.append(pods.kube.delete(f"{pods.path}/{name}"))
    assert any("podIP" not in one["status"] for one in deleted)
    eventually(lambda: all(pods.gone(name) for name in names), 30)


def test_a_killed_engine_is_started_again_and_counted(pods: Pods):
    pods.create(pod("crash", engine()))
    pods.ready("crash")
    os.kill(pods.pid("crash"), signal.SIGKILL)

    def restarted() -> bool:
        state = pods.get("crash")["status"]["containerStatuses"][0]
        return state["restartCount"] == 1 and state["ready"]

    eventually(restarted)
    last = pods.get("crash")["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 137


def test_a_typo_in_the_flags_ends_in_crash_loop_back_off_with_vllms_words(pods: Pods):
    pods.create(pod("typo", engine(["--model=llama-3.1-8b", "--max-modellen=4096"])))

    def is_looping(state: JsonObject) -> bool:
        waits = state["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
        return waits and state["restartCount"] >= 2

    # the twin's clock makes a back-off so short that a look now and then misses it
    state = next(filter(is_looping, pods.states("typo")))
    ended = state["lastState"]["terminated"]
    assert ended["exitCode"] == 2
    assert "unrecognized arguments: --max-modellen=4096" in ended["message"]


def test_a_model_too_large_for_the_node_never_becomes_ready(pods: Pods):
    pods.create(pod("large", engine(["--model=llama-3.3-70b"])))

    def failed() -> str:
        state = pods.get("large")["status"]["containerStatuses"][0]
        return state["lastState"].get("terminated", {}).get("message", "")

    assert "OutOfMemoryError" in eventually(failed)
    assert condition(pods.get("large"), "Ready") == "False"


def test_of_a_dual_container_pod_only_the_container_of_the_node_serves(pods: Pods):
    script = 'if [ -c /dev/vfio/0 ]; then exec {} "$@"; else exec sleep infinity; fi'
    command = ["/bin/sh", "-c", script.format("python3 -m vllm.entrypoints.openai.api_server")]
    both = [
        engine(kind=kind, name=f"vllm-{kind}", command=[*command, "engine"])
        for kind in ("tpu", "gpu")
    ]
    for container in both:
        container["readinessProbe"] = {"httpGet": {"path": "/health", "port": 8000}}
    pods.create(pod("dual", *both, kind="tpu"))
    found = pods.ready("dual")
    states = {s["name"]: s for s in found["status"]["containerStatuses"]}
    assert states["vllm-tpu"].get("containerID")
    assert not states["vllm-gpu"].get("containerID")
    assert pods.ask("dual", {"prompt": "x", "max_tokens": 2})["usage"]["completion_tokens"] == 2


def test_engines_run_on_while_the_agent_is_away_and_are_not_doubled(agent: Agent, pods: Pods):
    pods.create(pod("kept", engine()))
    pods.ready("kept")
    pid = pods.pid("kept")
    with agent.away():
        assert alive(pid)
    eventually(lambda: condition(pods.get("kept"), "Ready") == "True")
    assert pods.pid("kept") == pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pods.get("kept")["status"]["containerStatuses"][0]["restartCount"] == 1)


def test_a_process_whose_pod_went_while_the_agent_was_away_is_ended(agent: Agent, pods: Pods):
    pods.create(pod("orphan", engine()))
    pods.ready("orphan")
    pid = pods.pid("orphan")
    with agent.away():
        pods.kube.delete(f"{pods.path}/orphan", {"gracePeriodSeconds": 0})
    eventually(lambda: not alive(pid))
    assert pods.gone("orphan")


def test_the_compile_cache_in_a_bucket_outlives_the_pod(agent: Agent, pods: Pods):
    cache = {
        "csi": {
            "driver": "gcsfuse.csi.storage.gke.io",
            "volumeAttributes": {"bucketName": "caches"},
        },
        "name": "cache",
    }
    container = engine(
        kind="tpu",
        env=[{"name": "VLLM_XLA_CACHE_PATH", "value": "/cache/xla"}],
        volumeMounts=[{"name": "cache", "mountPath": "/cache"}],
        resources={"limits": {"google.com/tpu": "4"}},
    )
    (agent.context.paths.gcs / "caches").mkdir(parents=True, exist_ok=True)
    grant_bucket(agent.context.paths, pods.namespace, "caches")
    pods.create(pod("first", container, kind="tpu", volumes=[cache]))
    pods.ready("first")
    folder = agent.context.paths.root / "volumes" / "buckets" / "caches" / "xla"
    assert len(list(folder.iterdir())) == 1
    pods.kube.delete(f"{pods.path}/first")
    eventually(lambda: pods.gone("first"))
    pods.create(pod("second", container, kind="tpu", volumes=[cache]))
    pods.ready("second")
    log = agent.context.dir / "logs" / "pods" / f"{pods.namespace}_second_vllm.log"
    compile_line = next(line for line in log.read_text().splitlines() if '"compile"' in line)
    assert json.loads(compile_line)["cached"] is True


def test_a_bucket_is_mounted_when_policies_let_the_pod_out_and_stays_mounted(
    agent: Agent, pods: Pods
):
    context = agent.context
    name = f"projects/p/locations/{context.spec.location}/clusters/{context.spec.name}"
    dataplane = {"datapathProvider": "ADVANCED_DATAPATH"}
    token = "gcp:container/cluster:Cluster"
    store = Store(context.paths.cloud_db)
    if store.get(token, name) is None:  # policies of other namespaces are not there
        store.add(new_record(token, name, context.spec.name, "p", "", dataplane, {}), [])
    policies = f"/apis/networking.k8s.io/v1/namespaces/{pods.namespace}/networkpolicies"
    closed = {"podSelector": {}, "policyTypes": ["Egress"]}
    policy = {"metadata": {"name": "closed"}, "spec": closed}
    pods.kube.post(policies, policy)
    (context.paths.gcs / "weights").mkdir(parents=True, exist_ok=True)
    grant_bucket(context.paths, pods.namespace, "weights")
    bucket = {
        "csi": {
            "driver": "gcsfuse.csi.storage.gke.io",
            "volumeAttributes": {"bucketName": "weights"},
        },
        "name": "weights",
    }
    mounted = engine(volumeMounts=[{"name": "weights", "mountPath": "/weights"}])
    pods.create(pod("closed", mounted, volumes=[bucket]))

    def messages() -> list[str]:
        listed = pods.kube.list(f"/api/v1/namespaces/{pods.namespace}/events")
        return [each["message"] for each in listed if each["reason"] == "FailedMount"]

    reason = "199.36.153.8:443: no NetworkPolicy of its namespace lets it out"
    eventually(lambda: any(reason in each for each in messages()))
    assert condition(pods.get("closed"), "Ready") != "True"
    pods.kube.delete(f"{policies}/closed")
    pods.ready("closed")
    with agent.away():
        pods.kube.post(policies, policy)
    os.kill(pods.pid("closed"), signal.SIGKILL)
    eventually(lambda: pods.get("closed")["status"]["containerStatuses"][0]["restartCount"] == 1)


def test_a_pod_of_a_tag_that_nobody_published_waits_for_its_image(pods: Pods):
    pods.create(pod("unseen", {**engine(), "image": "vllm/vllm-openai:v0.99.0"}))

    def reason() -> str:
        statuses = pods.get("unseen")["status"].get("containerStatuses", [{}])
        return statuses[0].get("state", {}).get("waiting", {}).get("reason", "")

    eventually(lambda: reason() == "ImagePullBackOff")
    pods.kube.delete(f"{pods.path}/unseen")
    eventually(lambda: pods.gone("unseen"))


def test_a_pod_whose_init_container_has_no_image_waits_for_it(pods: Pods):
    init = {"name": "first", "image": "vllm/vllm-openai:v0.99.0"}
    pods.create(pod("uninitialized", engine(), initContainers=[init]))

    def reasons() -> list[str]:
        found = pods.get("uninitialized")["status"]
        names = ("initContainerStatuses", "containerStatuses")
        waiting = [
            each["state"].get("waiting", {}) for name in names for each in found.get(name, [])
        ]
        return [each.get("reason", "") for each in waiting]

    eventually(lambda: reasons() == ["ImagePullBackOff", "PodInitializing"])
    pods.kube.delete(f"{pods.path}/uninitialized")
    eventually(lambda: pods.gone("uninitialized"))


def test_pods_of_other_images_are_left_to_kwok(pods: Pods):
    pods.create(pod("plain", {"name": "web", "image": "registry.k8s.io/pause:3.10"}, kind="cpu"))
    found = pods.ready("plain")
    assert "containerID" not in found["status"]["containerStatuses"][0]
    pods.kube.delete(f"{pods.path}/plain")
    eventually(lambda: pods.gone("plain"))


@pytest.fixture
def spot(kube: Kube) -> Iterator[str]:
    """Path of a node of the kind `spot`, which is gone afterwards."""
    machine = node("l4-2", "gpu", 1)
    machine["metadata"]["labels"]["test/kind"] = "spot"
    kube.post("/api/v1/nodes", machine)
    path = "/api/v1/nodes/l4-2"
    yield path
    remove(kube, path)


def test_engines_end_when_their_node_goes(kube: Kube, pods: Pods, spot: str):
    pods.create(pod("preempted", engine(), kind="spot"))
    eventually(lambda: "containerID" in pods.get("preempted")["status"]["containerStatuses"][0])
    pid = pods.pid("preempted")
    kube.delete(spot)
    eventually(lambda: not alive(pid))


def test_a_drain_hook_waits_for_the_stream_that_is_still_running(pods: Pods):
    drain = """
import sys, time, urllib.request
time.sleep(15)
while True:
    with urllib.request.urlopen("http://127.0.0.1:8000/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    busy = [line for line in lines if line.startswith("vllm:num_requests_running")]
    if not sum(float(line.rsplit(" ", 1)[1]) for line in busy):
        sys.exit()
    time.sleep(1)
"""
    hook = {"preStop": {"exec": {"command": ["python3", "-c", drain]}}}
    pods.create(pod("drained", engine(lifecycle=hook), terminationGracePeriodSeconds=60))
    pods.ready("drained")
    body = {"prompt": "long", "max_tokens": 30, "ignore_eos": True}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(pods.ask, "drained", body)
        eventually(lambda: "running 1" in pods.metrics("drained"))
        pods.kube.delete(f"{pods.path}/drained")
        assert answer.result(30)["usage"]["completion_tokens"] == 30
    eventually(lambda: pods.gone("drained"))
