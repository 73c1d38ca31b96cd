"""Speed of the engines after a few requests, beside the engine model."""

import re

import pytest

from scripts.accept.deployed import Deployed
from scripts.accept.row import Row, Verdict
from scripts.accept.speeds import speeds
from scripts.shared.deployments import deployment_of
from simulator.engine.core import EngineCore
from simulator.engine.request import Request
from tests.unit.accept.conftest import Fake
from tests.unit.accept.fake_platform import GPU_NODE, node
from twin.wire.kube import KubeError

MODEL = "meta-llama/Llama-3.1-8B"
FLAGS = ["--max-model-len=8192", "--served-model-name=llama-3.1-8b"]
DEPLOYMENTS = "/apis/apps/v1/namespaces/models/deployments/llama-3-1-8b"


def after_some_requests(slowdown: float, count: int = 6) -> list[str]:
    """Return the metrics before and after requests of 16 tokens, one after the other."""
    engine = EngineCore(deployment_of(MODEL, "nvidia-l4", 1, FLAGS))
    engine.slow_down(slowdown, 0.0)
    pages, at = [engine.metrics.render()], 1.0
    for number in range(count):
        start = number * 100
        request = Request(
            str(number), range(start, start + 12), 16, at, output=range(16), tell_at=2**62
        )
        engine.submit(request, at)
        at += 2 * slowdown
        engine.advance(at)
        engine.news()
    return [*pages, engine.metrics.render()]


def container(kind: str, word: str) -> dict[str, object]:
    return {
        "name": "vllm",
        "image": f"example.com/vllm-{kind}:v1",
        "args": ["serve", MODEL, *FLAGS, f"--tensor-parallel-size={4 if kind == 'tpu' else 1}"],
        "resources": {"limits": {word: "4" if kind == "tpu" else "1"}},
    }


@pytest.fixture
def rungs(fake: Fake) -> Fake:
    """Let the cluster have the Deployments, and a replica on L4."""
    for kind, word in (("tpu", "google.com/tpu"), ("gpu", "nvidia.com/gpu")):
        spec = {"template": {"metadata": {}, "spec": {"containers": [container(kind, word)]}}}
        fake.cluster.deployments[f"{DEPLOYMENTS}-{kind}"] = {"spec": spec}
    fake.cluster.nodes = [node("gpu", GPU_NODE)]
    return fake


def record(fake: Fake, pages: list[str], on: str = "gpu") -> None:
    labels = {
        "cluster": "acme-local-us-central1", "location": "us-central1", "namespace": "models",
        "job": "llama-3-1-8b", "pod": f"llama-{on}", "node": on,
    }  # fmt: skip
    fake.cluster.series.add(pages, labels)


def only(platform: Deployed) -> Row:
    (row,) = speeds(platform)
    return row


@pytest.mark.parametrize(
    ("slowdown", "verdict"), [(1.0, Verdict.MET), (1.5, Verdict.MET), (3.0, Verdict.NOT_MET)]
)
def test_engines_that_take_more_than_twice_the_models_time_are_not_met(
    platform: Deployed, rungs: Fake, slowdown: float, verdict: Verdict
) -> None:
    record(rungs, after_some_requests(slowdown))
    row = only(platform)
    assert row.verdict is verdict
    assert row.name == "llama-3.1-8b on nvidia-l4 x1 on-demand, nvidia-l4 x1 spot in us-central1"
    assert re.fullmatch(
        r"72\.6 ms between tokens at 1\.\d sequences; at most 2 times as long", row.predicted
    )
    factor = float(row.measured.split(", ")[1].split()[0])
    assert factor == pytest.approx(slowdown, rel=0.05)


def test_too_few_tokens_are_not_checked_after_waiting_for_scrapes(
    platform: Deployed, rungs: Fake
) -> None:
    record(rungs, after_some_requests(1.0, count=1))
    row = only(platform)
    assert row.verdict is Verdict.NOT_CHECKED
    assert row.measured == "too little data: 15 tokens; 0 of 1 scrapes with 20 steps"
    asked = [each for each in rungs.cluster.series.asked if each.startswith("vllm:prompt_tokens")]
    assert len(asked) == 3


def test_a_platform_without_answers_makes_no_promise(platform: Deployed, rungs: Fake) -> None:
    row = only(platform)
    assert (row.verdict, row.measured) == (Verdict.NOT_CHECKED, "no model has answered")


def test_an_engine_whose_node_is_gone_is_not_part_of_the_platform(
    platform: Deployed, rungs: Fake
) -> None:
    record(rungs, after_some_requests(3.0), on="gone")
    assert only(platform).measured == "no model has answered"
    record(rungs, after_some_requests(1.0))
    assert only(platform).verdict is Verdict.MET


def test_metrics_that_cannot_be_read_are_unseen(platform: Deployed, fake: Fake) -> None:
    fake.cluster.error = KubeError(403, "Forbidden", "nodes is forbidden", {})
    assert only(platform).is_unseen
