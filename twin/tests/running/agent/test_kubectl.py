"""kubectl logs, exec, cp, port-forward and top for pods whose containers are processes."""

import http.client
import json
import os
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra

from twin.cluster.base.context import ClusterContext
from twin.cluster.controlplane.konnectivity import Konnectivity
from twin.cluster.controlplane.kubelet import Kubelet, process_name
from twin.cluster.metrics_api.resources import ResourceMetrics
from twin.host import processes
from twin.host.ports import free_port, listens
from twin.tests.eventually import eventually
from twin.tests.running.agent.conftest import Agent
from twin.tests.running.agent.objects import engine, pod, remove
from twin.tests.running.agent.test_engine_pods import Pods
from twin.tests.tools import needed
from twin.toolchain import tool
from twin.wire.kube import Kube

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
USER = 1000
_MANAGED = "gke-managed-system"  # in which the twin registers its APIs
_NEW = ["unshare", "--user", "--mount", "--map-root-user", "true"]


class Kubectl:
    """The real kubectl, as the administrator of the cluster."""

    def __init__(self, context: ClusterContext, namespace: str) -> None:
        self._argv = [str(tool("kubectl")), f"--kubeconfig={context.kubeconfig}", "-n", namespace]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._argv, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._argv, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def said(self, *words: str, stdin: str | None = None) -> str:
        answer = self.run(*words, stdin=stdin)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout


@pytest.fixture(scope="module")
def access(context: ClusterContext, agent: Agent) -> Iterator[ClusterContext]:
    """The cluster's own ways to its pods."""
    del agent
    needed("kubelet")
    if not context.kube.list("/api/v1/namespaces", None, f"metadata.name={_MANAGED}"):
        context.kube.post("/api/v1/namespaces", {"metadata": {"name": _MANAGED}})
    stop = threading.Event()
    parts = [Konnectivity(context), Kubelet(context), ResourceMetrics(context)]
    threads = [threading.Thread(target=part.run, args=(stop,), daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    eventually(lambda: listens(_port(context)))
    yield context
    stop.set()
    for thread in threads:
        thread.join(10)
    processes.stop(context.paths, process_name(context.dir))


@pytest.fixture(scope="module")
def namespaced(access: ClusterContext) -> Iterator[str]:
    """A pod `engine` that is ready, with a ConfigMap, an empty folder and a variable."""
    kube, name = access.kube, "kubectl"
    kube.post("/api/v1/namespaces", {"metadata": {"name": name}})
    eventually(lambda: kube.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    found = Pods(kube, name)
    kube.post(
        f"/api/v1/namespaces/{name}/configmaps",
        {"metadata": {"name": "settings"}, "data": {"colour": "blue"}},
    )
    container = engine(
        env=[{"name": "COLOUR", "value": "blue"}],
        securityContext={"runAsUser": USER, "runAsGroup": USER},
        volumeMounts=[
            {"name": "settings", "mountPath": "/etc/settings", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "token", "mountPath": "/var/run/secrets/reader", "readOnly": True},
        ],
    )
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]
    found.create(pod("engine", container, volumes=volumes))
    found.ready("engine")
    yield name
    kube.delete(f"{found.path}/engine", {"gracePeriodSeconds": 1})
    eventually(lambda: found.gone("engine"))


@pytest.fixture
def kubectl(access: ClusterContext, namespaced: str) -> Kubectl:
    return Kubectl(access, namespaced)


def _port(context: ClusterContext) -> int:
    return int(json.loads((context.dir / "ports.json").read_text())["kubelet"])


def _needs_namespaces() -> None:
    if subprocess.run(_NEW, capture_output=True, check=False).returncode:
        pytest.skip("this machine refuses user namespaces")


def test_logs_are_the_output_of_the_containers_process(kubectl: Kubectl):
    said = kubectl.said("logs", "engine")
    assert '"message": "listening on http://' in said
    assert kubectl.said("logs", "engine", "--tail=1") == said.splitlines(keepends=True)[-1]
    assert kubectl.said("logs", "engine", "--limit-bytes=5") == said[:5]


@pytest.fixture
def short(access: ClusterContext, namespaced: str) -> Iterator[Pods]:
    """The pods of the namespace; one that a test names `short` is gone afterwards."""
    pods = Pods(access.kube, namespaced)
    yield pods
    remove(access.kube, f"{pods.path}/short", 1)
    eventually(lambda: pods.gone("short"))


def test_followed_logs_end_with_the_process_and_the_previous_ones_stay(
    kubectl: Kubectl, access: ClusterContext, namespaced: str, short: Pods
):
    pods = short
    pods.create(pod("short", engine()))
    pods.ready("short")
    assert "not found" in kubectl.run("logs", "short", "--previous").stderr
    first = kubectl.said("logs", "short")
    _needs_namespaces()
    assert kubectl.said("exec", "short", "--", "id", "-u") == "0\n"  # as its image says
    with kubectl.start("logs", "short", "--follow") as following:
        try:
            assert following.stdout is not None
            assert following.stdout.read(len(first)) == first  # it follows the first process
            (file,) = (
                each
                for each in (access.dir / "pods" / namespaced).glob("*/vllm.process.json")
                if json.loads((each.parent / "pod.json").read_text())["name"] == "short"
            )
            os.kill(json.loads(file.read_text())["pid"], 9)
            assert following.wait(60) == 0
            assert "listening" not in following.stdout.read()  # as the second process says
        finally:
            following.kill()
    eventually(lambda: pods.get("short")["status"]["containerStatuses"][0]["restartCount"] == 1)
    eventually(lambda: kubectl.run("logs", "short", "--previous").stdout.startswith(first))
    pods.ready("short")
    assert not kubectl.said("logs", "short").startswith(first + first)
    access.kube.delete(f"{pods.path}/short", {"gracePeriodSeconds": 1})
    eventually(lambda: pods.gone("short"))
    assert kubectl.run("logs", "short").returncode == 1


def test_logs_by_time_are_refused_because_the_lines_have_none(kubectl: Kubectl):
    answer = kubectl.run("logs", "engine", "--since=1m")
    assert answer.returncode == 1
    assert 'sinceSeconds: the lines of a log have no times on the twin, got "60"' in answer.stderr


def test_a_command_has_the_environment_user_folders_and_name_of_the_container(kubectl: Kubectl):
    _needs_namespaces()
    program = (
        "id -u; id -g; hostname; echo $COLOUR; cat /etc/settings/colour; echo; "
        "touch /scratch/new && echo kept; touch /etc/settings/new || touch /usr/new || echo refused"
    )
    said = kubectl.said("exec", "engine", "--", "sh", "-c", program)
    assert said.split() == [str(USER), str(USER), "engine", "blue", "blue", "kept", "refused"]
    assert kubectl.said("exec", "engine", "--", "ls", "/scratch") == "new\n"


def test_tools_that_look_into_a_pod_with_kubectl_find_what_its_specification_says(
    access: ClusterContext, namespaced: str, monkeypatch: pytest.MonkeyPatch
):
    _needs_namespaces()
    monkeypatch.setenv("PATH", str(tool("kubectl").parent), prepend=os.pathsep)
    place = f"namespace={namespaced}&container=vllm&kubeconfig={access.kubeconfig}"
    inside: Any = testinfra.get_host(f"kubectl://engine?{place}")
    assert inside.user().uid == USER
    assert inside.environment()["COLOUR"] == "blue"
    assert inside.file("/etc/settings/colour").content_string == "blue"
    assert inside.mount_point("/scratch").exists
    assert inside.mount_point("/dev/shm").exists
    assert inside.file("/var/run/secrets/reader/token").content_string.count(".") == 2
    assert "ro" in inside.mount_point("/etc/settings").options
    address = access.kube.get(f"/api/v1/namespaces/{namespaced}/pods/engine")["status"]["podIP"]
    assert inside.socket(f"tcp://{address}:8000").is_listening


def test_a_command_reaches_its_own_pod_on_localhost(kubectl: Kubectl):
    _needs_namespaces()
    program = (
        "import urllib.request as r; "
        "print([r.urlopen(f'http://{h}:8000/health').status for h in ('localhost', '127.0.0.1')])"
    )
    assert kubectl.said("exec", "engine", "--", "python3", "-c", program) == "[200, 200]\n"


def test_a_command_reads_its_input_and_gives_its_exit_code(kubectl: Kubectl):
    _needs_namespaces()
    assert kubectl.said("exec", "-i", "engine", "--", "tr", "a-z", "A-Z", stdin="over") == "OVER"
    assert kubectl.run("exec", "engine", "--", "sh", "-c", "exit 3").returncode == 3
    missing = kubectl.run("exec", "engine", "--", "no-such-program")
    assert missing.returncode == 127
    assert 'exec: "no-such-program": executable file not found in $PATH' in missing.stderr


def test_files_are_copied_into_a_container_and_out_of_it(kubectl: Kubectl, tmp_path: Path):
    _needs_namespaces()
    (tmp_path / "in").write_text("carried")
    kubectl.said("cp", str(tmp_path / "in"), "engine:/tmp/in")
    kubectl.said("cp", "engine:/tmp/in", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "carried"
    assert not Path("/tmp/in").exists()


def test_a_forwarded_port_reaches_the_engine(kubectl: Kubectl):
    port = free_port()
    with kubectl.start("port-forward", "pod/engine", f"{port}:8000", "--address=127.0.0.1") as one:
        try:
            eventually(lambda: listens(port))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as answer:
                assert json.load(answer)["object"] == "list"
        finally:
            one.terminate()


def test_top_shows_the_memory_and_processor_time_of_pods_and_nodes(kubectl: Kubectl):
    def rows(*words: str) -> list[list[str]]:
        answer = kubectl.run("top", *words, "--no-headers")
        return [line.split() for line in answer.stdout.splitlines()]

    cores, memory = eventually(lambda: {name: rest for name, *rest in rows("pods")}["engine"], 40)
    assert cores.endswith("m")
    assert 10 < int(memory.removesuffix("Mi")) < 2000
    nodes = {row[0]: row for row in rows("nodes")}
    assert nodes["l4-1"][3] == memory
    assert nodes["cpu-1"][3] == "0Mi"


def test_a_container_without_a_process_says_so(kube: Kube, access: ClusterContext, namespaced: str):
    container = {"name": "idle", "image": "gcr.io/google-containers/pause:3.2"}
    kube.post(f"/api/v1/namespaces/{namespaced}/pods", pod("idle", container))
    path = f"/api/v1/namespaces/{namespaced}/pods/idle"
    try:
        eventually(lambda: kube.get(path)["status"].get("phase") == "Running")
        answer = Kubectl(access, namespaced).run("logs", "idle")
    finally:
        kube.delete(path, {"gracePeriodSeconds": 0})
    assert answer.returncode == 1
    assert f"pod {namespaced}/idle has no process on the twin" in answer.stderr


@pytest.mark.parametrize(
    ("certificate", "status"),
    [(None, 401), ("egress", 403), ("kube-apiserver-kubelet-client", 400)],
)
def test_the_kubelet_answers_the_api_server_alone(
    access: ClusterContext, certificate: str | None, status: int
):
    settings = ssl.create_default_context(cafile=str(access.paths.pki / "ca.crt"))
    if certificate is not None:
        pki = access.dir / "pki"
        settings.load_cert_chain(pki / f"{certificate}.crt", pki / f"{certificate}.key")
    connection = http.client.HTTPSConnection("127.0.0.1", _port(access), context=settings)
    connection.request("GET", "/containerLogs/kubectl/missing/vllm")
    assert connection.getresponse().status == status
    connection.close()
