"""docs/examples/agents on the twin: many sessions of a framework, and a restart of their model."""

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gke_inference.serving.pod_spec import MODEL_LABEL
from tests.platform import example_checkout
from tests.platform.example_checkout import output_of
from tests.platform.gate import until_keys_are_read
from twin.cluster.base import podports
from twin.host.paths import REPOSITORY
from twin.tests.eventually import eventually
from twin.toolchain import tool
from twin.wire.kube import Kube

# simulator/tests/unit/engine/test_structured.py has the loop of an agent, and
# workloads/gateway/callout/internal/extproc/turns_test.go the turns of sessions
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

EXAMPLE = REPOSITORY / "docs" / "examples" / "agents"
SESSIONS = 50
SECONDS = 180.0
STACK = ("--stack", "clients")
LIMITS = {
    "requests_per_minute: 600": "requests_per_minute: 6000",
    "tokens_per_minute: 400000": "tokens_per_minute: 40000000",
    "      port: 8080\n": "      port: 8080\n      requests_per_minute: 6000\n",
}
"""Limits of the team, and of an IP address at the gateway, which its README raises."""
MODEL = "llama-3-1-8b"
DEPLOYMENTS = "/apis/apps/v1/namespaces/models/deployments"
PODS = "/api/v1/namespaces/models/pods"
ENGINE_PORT = 8000
RUNNING = "vllm:num_requests_running{"


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The Python of an environment with what the example requires."""
    folder = tmp_path_factory.mktemp("agents") / "venv"
    uv = shutil.which("uv") or str(REPOSITORY / ".venv" / "bin" / "uv")
    subprocess.run([uv, "venv", "-q", "--python", "3.11", str(folder)], check=True)
    found = folder / "bin" / "python"
    needed = str(EXAMPLE / "requirements.txt")
    subprocess.run([uv, "pip", "install", "-q", "--python", str(found), "-r", needed], check=True)
    return found


def agents(python: Path, endpoint: str, key: str, sessions: int, seconds: float) -> Any:
    """Start the program of the example."""
    environment = {**os.environ, "OPENAI_BASE_URL": f"{endpoint}/v1", "OPENAI_API_KEY": key}
    return subprocess.Popen(
        [str(python), str(EXAMPLE / "agents.py"), f"--sessions={sessions}", f"--seconds={seconds}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def summary(running: Any) -> dict[str, Any]:
    printed, said = running.communicate(timeout=SECONDS + 240)
    assert printed, said[-3000:]
    return json.loads(printed)


def running_in(cluster: Path, pod: dict[str, Any]) -> float:
    """Return the number of requests that a replica computes."""
    address, port = podports.resolve(cluster, pod, ENGINE_PORT)
    with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(RUNNING))


def replicas(kube: Kube) -> list[dict[str, Any]]:
    return kube.list(PODS, f"{MODEL_LABEL}={MODEL}")


def restart(kubeconfig: Path, kube: Kube) -> None:
    """Restart the replicas of the model, and wait until all are new."""
    before = {pod["metadata"]["name"] for pod in replicas(kube)}
    owners = [
        each["metadata"]["name"]
        for each in kube.list(DEPLOYMENTS)
        if each["spec"]["template"]["metadata"]["labels"].get(MODEL_LABEL) == MODEL
    ]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    for name in owners:
        command = [str(tool("kubectl")), "-n", "models", "rollout", "restart", f"deployment/{name}"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    eventually(lambda: not before & {pod["metadata"]["name"] for pod in replicas(kube)}, 300)


def test_fifty_sessions_of_agents_lose_nothing_while_the_replicas_of_their_model_are_restarted(
    tmp_path, paths, python
):
    checkout = example_checkout.checkout(tmp_path / "checkout", "clients")
    file = checkout / "stacks" / "Pulumi.clients.yaml"
    text = file.read_text()
    for old, new in LIMITS.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    output_of(checkout, paths, "up", *STACK)
    endpoint = (paths.root.parent / "clients" / "endpoint").read_text().strip()
    keys = [
        output_of(checkout, paths, "clients", "keys", "create", "assistant", *STACK).strip()
        for _ in range(2)
    ]
    until_keys_are_read(paths)
    (kubeconfig,) = paths.root.glob("clusters/*/kubeconfig")
    kube = Kube(kubeconfig)

    def running() -> float:
        return sum(running_in(kubeconfig.parent, pod) for pod in replicas(kube))

    program = agents(python, endpoint, keys[0], SESSIONS, SECONDS)
    eventually(lambda: running() > 0, 120)
    colleague = agents(python, endpoint, keys[1], 1, 20)
    alone = summary(colleague)
    restart(kubeconfig, kube)
    assert program.poll() is None, "the sessions outlive the restart"
    found = summary(program)
    assert alone["errors"] == []
    assert alone["turns"] > 0
    assert found["errors"] == []
    assert found["sessions"] == SESSIONS
    assert found["turns"] >= SESSIONS
    assert found["tool_calls"] >= found["turns"] + found["left"]
    assert found["left"] >= SESSIONS / 10
    eventually(lambda: running() == 0, 30)
    assert "Nothing is left in the cloud." in output_of(checkout, paths, "down")
