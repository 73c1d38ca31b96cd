"""One endpoint for six runtimes, a pool with a fallback, and a key in front of all of them."""

import base64
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from tests.platform import example_checkout
from tests.platform.example_checkout import output_of
from tests.platform.gate import until_keys_are_read
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import secret_manager
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools

MODEL = "llama-3.1-8b"
ON_CLOUD_RUN = "gemma-3-4b"
STACK = ("--stack", "backends")
SECRETS = "projects/acme-inference-backends/secrets/acme-backends-{}-key"
KEYS = {
    "anthropic": "sk-ant-of-the-platform-1",
    "gemini": "AIza-of-the-platform-gemini",
    "openai": "sk-of-the-platform-openai",
}
ANSWERED_BY = {
    "claude": "api.anthropic.com",
    "gemini-flash": ("us-central1-aiplatform.googleapis.com", "generativelanguage.googleapis.com"),
    "gpt": "api.openai.com",
    "on-premises": "llm.dc1.example.internal",
    "small": "gemma-314159265358.us-central1.run.app",
}
VERTEX = "us-central1-aiplatform.googleapis.com"
COUNTED = {"requests": 2, "refused": 1, "completion_tokens": 4}
"""What one answer and one refusal add to a team's usage."""
REVOKED_WITHIN_SECONDS = 5.0
MESSAGES: Any = [{"role": "user", "content": "Which keys open which doors?"}]


@dataclass(frozen=True)
class Deployed:
    """The example after its `up`, and a client of the team `assistant`."""

    checkout: Path
    paths: TwinPaths
    shown: str
    """What `up` printed."""
    key: str
    client: openai.OpenAI

    def cli(self, *arguments: str) -> str:
        return output_of(self.checkout, self.paths, *arguments, *STACK)


@pytest.fixture(scope="module")
def platform(tmp_path_factory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("backends")
    paths = TwinPaths(folder / "twin")
    checkout = example_checkout.checkout(folder / "checkout", "backends")
    deploy_on_cloud_run(checkout / "stacks" / "Pulumi.backends.yaml")
    try:
        shown = output_of(checkout, paths, "up", *STACK)
        for name, key in KEYS.items():
            fill(paths, name, key)
        endpoint = (folder / "backends" / "endpoint").read_text().strip()
        create = ("clients", "keys", "create", "assistant")
        key = output_of(checkout, paths, *create, *STACK).strip()
        until_keys_are_read(paths)
        with openai.DefaultHttpxClient(trust_env=False) as http:
            client = openai.OpenAI(
                base_url=f"{endpoint}/v1", api_key=key, max_retries=0, http_client=http
            )
            yield Deployed(checkout, paths, shown, key, client)
    finally:
        daemon.shut_down(paths)
    assert processes.running(paths) == {}


def deploy_on_cloud_run(file: Path) -> None:
    """Add a backend that the stack deploys, as in docs/examples/cloud-run."""
    stack = yaml.safe_load(file.read_text())
    platform = stack["config"]["gke-inference:platform"]
    platform["backends"][ON_CLOUD_RUN] = {
        "kind": "cloud-run",
        "model": ON_CLOUD_RUN,
        "deploy": {
            "accelerator": "nvidia-l4",
            "context": 8192,
            "size": {"parameters_billion": 4.3},
            "weights": f"{ON_CLOUD_RUN}@1.0.0",
        },
    }
    clients = platform["clients"]
    clients["teams"]["assistant"]["models"].append(ON_CLOUD_RUN)
    clients["prices"][ON_CLOUD_RUN] = clients["prices"]["small"]
    file.write_text(yaml.safe_dump(stack))


def instances(paths: TwinPaths) -> list[str]:
    """Return the processes of instances on Cloud Run."""
    return [name for name in processes.running(paths) if name.startswith("run-")]


def fill(paths: TwinPaths, name: str, key: str) -> None:
    """Add a version to a secret, as `gcloud secrets versions add` does."""
    data = base64.b64encode(key.encode()).decode()
    url = f"{secret_manager.url(paths)}/v1/{SECRETS.format(name)}:addVersion"
    body = json.dumps({"payload": {"data": data}}).encode()
    urllib.request.urlopen(urllib.request.Request(url, body), timeout=10).close()  # noqa: S310


def until(check: Callable[[], bool], seconds: float = 40) -> None:
    limit = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < limit
        time.sleep(0.5)


def content(client: openai.OpenAI, model: str) -> str:
    """Return an answer of a model; the stand-ins' begin with the host that was called."""
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=4)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4
    return str(answer.choices[0].message.content)


def whole(client: openai.OpenAI, model: str) -> str:
    """Return a streamed answer of a model, joined."""
    chunks = client.chat.completions.create(
        model=model, messages=MESSAGES, max_tokens=16, stream=True
    )
    return "".join(str(chunk.choices[0].delta.content) for chunk in chunks if chunk.choices)


def is_refused(client: openai.OpenAI) -> bool:
    """Return whether the gate refuses a request for its key."""
    try:
        content(client, MODEL)
    except openai.AuthenticationError:
        return True
    return False


def cluster_of(paths: TwinPaths) -> Kube:
    """Return the API server of the only cluster."""
    (file,) = paths.root.glob("clusters/*/kubeconfig")
    return Kube(file)


def scale(paths: TwinPaths, replicas: dict[str, int]) -> None:
    """Give the Deployments of the model replicas; an autoscaler leaves one without alone."""
    kube = cluster_of(paths)
    for name, number in replicas.items():
        path = f"/apis/apps/v1/namespaces/models/deployments/{name}"
        kube.patch(path, {"spec": {"replicas": number}}, "merge")


def test_one_client_reaches_every_runtime_and_a_pool_without_engines_spills(platform):
    client, paths = platform.client, platform.paths
    names = f"claude, gemini-flash, {ON_CLOUD_RUN}, gpt, llama-3.1-8b, on-premises, small"
    assert f"Models   {names}" in platform.shown
    for model, hosts in ANSWERED_BY.items():
        assert content(client, model).startswith(hosts)
        chunks = list(
            client.chat.completions.create(
                model=model, messages=MESSAGES, max_tokens=4, stream=True
            )
        )
        assert [bool(chunk.choices) for chunk in chunks] == [True] * 4
    until(lambda: not content(client, MODEL).startswith(VERTEX))
    here = [content(client, MODEL) for _ in range(5)]
    assert not any(each.startswith(VERTEX) for each in here), "an engine has room"

    kube = cluster_of(paths)
    found = kube.get("/apis/apps/v1/namespaces/models/deployments")["items"]
    engines = {
        each["metadata"]["name"]: each["spec"]["replicas"]
        for each in found
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "model-server"
    }
    scale(paths, dict.fromkeys(engines, 0))
    until(lambda: content(client, MODEL).startswith(VERTEX))
    scale(paths, engines)
    until(lambda: not content(client, MODEL).startswith(VERTEX))

    spent = kube.get("/api/v1/namespaces/models/configmaps/relay-llama-3-1-8b-spent")
    assert int(spent["data"]["spent_nano_usd"]) > 0
    logs = "".join(log.read_text() for log in paths.root.glob("clusters/*/logs/pods/*relay*.log"))
    assert '"serving"' in logs
    assert not [key for key in (*KEYS.values(), "ya29", "Bearer") if key in logs]
    state = yaml.safe_dump([file.read_text() for file in paths.root.rglob("*.json")])
    assert not [key for key in KEYS.values() if key in state]


def test_a_model_on_cloud_run_starts_with_a_request_and_ends_when_it_is_idle(platform):
    assert instances(platform.paths) == []
    assert "simulat" in whole(platform.client, ON_CLOUD_RUN)
    (running,) = instances(platform.paths)
    assert running.startswith(f"run-acme-backends-run-{ON_CLOUD_RUN}-")
    until(lambda: instances(platform.paths) == [])


def test_a_team_is_charged_for_what_its_key_used_and_a_revoked_key_opens_nothing(platform):
    def used() -> dict[str, Any]:
        rows = json.loads(platform.cli("clients", "usage", "-o", "json"))
        return {row["team"]: row for row in rows}.get("assistant", dict.fromkeys(COUNTED, 0))

    before = used()
    content(platform.client, MODEL)
    with pytest.raises(openai.NotFoundError, match="does not exist or you do not have access"):
        content(platform.client, "none")
    until(lambda: used()["requests"] == before["requests"] + COUNTED["requests"])
    after = used()
    assert {name: after[name] - before[name] for name in COUNTED} == COUNTED
    assert after["usd"] > before["usd"]

    key_id = platform.key.split("_")[1]
    (listed,) = json.loads(platform.cli("clients", "keys", "list", "-o", "json"))
    assert (listed["team"], listed["id"]) == ("assistant", key_id)
    platform.cli("clients", "keys", "revoke", key_id)
    until(lambda: is_refused(platform.client), REVOKED_WITHIN_SECONDS)


def test_what_the_tests_of_alerts_know_of_series_is_what_the_stack_exports(
    platform, series_are_recorded
):
    series_are_recorded(platform.paths, "backends")
