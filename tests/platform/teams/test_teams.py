"""Two teams on one platform, each a stack of its own, as docs/layers.md says."""

from pathlib import Path

import pytest

from scripts.shared.clusters import close, of_twin
from scripts.shared.model_client import models, stream_chat
from tests.platform import example_checkout
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools

SEARCH, ADS = "llama-3.1-8b", "qwen3-8b"


def run(folder: Path, paths: TwinPaths, *arguments: str) -> tuple[int, str]:
    """Run a command in the checkout; return its exit status and what it printed."""
    answer = example_checkout.run(folder, paths, *arguments)
    return answer.returncode, answer.stdout


def refused(paths: TwinPaths, namespace: str, gpus: int) -> str:
    """Return why a cluster refuses a pod with some GPUs."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "too-many", "namespace": namespace},
        "spec": {
            "containers": [
                {
                    "image": "registry.k8s.io/pause",
                    "name": "pause",
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                }
            ]
        },
    }
    [cluster] = of_twin(paths)
    try:
        cluster.kube.post(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    except KubeError as error:
        return error.message
    finally:
        close([cluster])
    return ""


def test_two_teams_share_a_platform_and_nothing_is_left_of_it(paths, tmp_path):
    folder = example_checkout.checkout(tmp_path / "checkout", "teams")
    status, said = run(folder, paths, "up", "--stack", "search")
    assert (status, "must be a serving stack whose platform is up" in said) == (2, True), said

    for stack in ("shared", "search", "ads"):
        status, said = run(folder, paths, "up", "--stack", stack)
        assert status == 0, said
    endpoint = "http://" + said.split("Gateway  http://")[1].split()[0]
    assert models(f"{endpoint}/search") == [SEARCH]
    assert models(f"{endpoint}/ads") == [ADS]
    for model in (SEARCH, ADS):
        assert stream_chat(endpoint, model, "Hello", max_tokens=8, timeout=60).text

    status, said = run(folder, paths, "status", "--stack", "search")
    assert (status, "llama-3-1-8b-gpu" in said, "qwen3-8b" in said) == (0, True, False), said

    # the quota of 2 has a replica on it already
    assert "exceeded quota: team" in refused(paths, "search", 2)
    assert refused(paths, "search", 1) == ""

    status, said = run(folder, paths, "down", "--stack", "shared")
    assert status == 1, said
    assert "take down ads, search first" in said.replace("\n", " ")
    status, said = run(folder, paths, "down")
    assert status == 0, said
    assert "Nothing is left in the cloud." in said
    assert not paths.root.exists()
