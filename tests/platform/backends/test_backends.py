"""One endpoint for six runtimes, and a pool with a fallback, as in docs/backends.md."""

import base64
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from tests.platform import example_checkout
from tests.platform.example_checkout import output_of
from tests.platform.gate import until_keys_are_read
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import secret_manager
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools

MODEL = "llama-3.1-8b"
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
MESSAGES: Any = [{"role": "user", "content": "Which keys open which doors?"}]


@pytest.fixture
def checkout(tmp_path) -> Path:
    return example_checkout.checkout(tmp_path / "checkout", "backends")


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


def test_one_client_reaches_every_runtime_and_a_pool_without_engines_spills(checkout, paths):
    up = output_of(checkout, paths, "up", *STACK)
    assert "Models   claude, gemini-flash, gpt, llama-3.1-8b, on-premises, small" in up
    for name, key in KEYS.items():
        fill(paths, name, key)
    endpoint = (paths.root.parent / "backends" / "endpoint").read_text().strip()
    key = output_of(checkout, paths, "clients", "keys", "create", "assistant", *STACK).strip()
    until_keys_are_read(paths)
    with openai.DefaultHttpxClient(trust_env=False) as http:
        client = openai.OpenAI(
            base_url=f"{endpoint}/v1", api_key=key, max_retries=0, http_client=http
        )
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
