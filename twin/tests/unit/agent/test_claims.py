"""Which pods the agent runs, and that KWOK is told the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from twin.cluster.agent.launching.claims import JQ, Kind, is_claimed, kind_of, sidecars
from twin.cluster.controlplane.processes import KWOK_STAGES, kwok_args

TRAIN = ["python3", "-m", "diffusion", "train", "--config", "/etc/train/train.json"]


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("vllm/vllm-openai:v0.32.0", Kind.ENGINE),
        ("vllm/vllm-tpu@sha256:abc", Kind.ENGINE),
        ("us-docker.pkg.dev/p/engines/vllm-tpu:1", Kind.ENGINE),
        ("docker.io/lmsysorg/sglang:v0.5.21", Kind.ENGINE),
        ("us-docker.pkg.dev/p/engines/sglang-gpu@sha256:abc", Kind.ENGINE),
        ("ghcr.io/huggingface/text-generation-inference:3.3.7", Kind.ENGINE),
        ("nvcr.io/nvidia/tritonserver:26.06-trtllm-python-py3", Kind.ENGINE),
        ("registry.k8s.io/gateway-api-inference-extension/epp:v1.2.0", Kind.PICKER),
        ("us-docker.pkg.dev/acme/inference/body-router@sha256:abc", Kind.ROUTER),
        ("us-docker.pkg.dev/p/platform/callout@sha256:abc", Kind.CALLOUT),
        ("us-docker.pkg.dev/p/platform/batch@sha256:abc", Kind.BATCH),
        ("us-docker.pkg.dev/p/platform/personal@sha256:abc", Kind.PERSONAL),
        ("us-docker.pkg.dev/p/platform/stream@sha256:abc", Kind.STREAM),
        ("example/callouts:1", Kind.IDLE),
        ("us-docker.pkg.dev/p/platform/guardrails@sha256:abc", Kind.GUARD),
        ("example/guardrails-ui:1", Kind.IDLE),
        ("registry.k8s.io/lws/lws:v0.9.0", Kind.OPERATOR),
        ("registry.k8s.io/lws/tools:v0.9.0", Kind.IDLE),
        ("registry.k8s.io/kueue/kueue:v0.19.2", Kind.QUEUES),
        ("registry.k8s.io/jobset/jobset:v0.12.0", Kind.JOB_SETS),
        ("registry.k8s.io/pause:3.10", Kind.IDLE),
        ("vllm/tools:1", Kind.IDLE),
        ("example/eppo:1", Kind.IDLE),
    ],
)
def test_the_image_says_what_a_container_becomes(image: str, kind: Kind):
    assert kind_of({"name": "c", "image": image}) is kind


def test_the_catalogue_is_nginx_by_that_name():
    image = "docker.io/nginxinc/nginx-unprivileged:1.29"
    assert kind_of({"name": "catalogue", "image": image}) is Kind.CATALOGUE
    assert kind_of({"name": "web", "image": image}) is Kind.IDLE


def test_what_waits_for_weights_or_kinds_or_scales_is_a_python_image_by_that_name():
    image = "docker.io/library/python:3.12.15-slim-bookworm"
    assert kind_of({"name": "weights-gate", "image": image}) is Kind.GATE
    assert kind_of({"name": "cluster-kinds", "image": image}) is Kind.KINDS
    assert kind_of({"name": "ray-scaler", "image": image}) is Kind.SCALER
    assert kind_of({"name": "tool", "image": image}) is Kind.IDLE


def test_a_pod_with_one_such_container_is_the_agents():
    idle = {"name": "side", "image": "busybox"}
    engine = {"name": "vllm", "image": "vllm/vllm-openai:1"}
    assert is_claimed({"spec": {"containers": [idle, engine]}})
    assert not is_claimed({"spec": {"containers": [idle]}})


def test_of_the_pods_of_jobs_only_training_runs_are_the_agents():
    engine = {"name": "work", "image": "vllm/vllm-openai:1"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [engine]}}
    assert is_claimed(pod)
    run = {"name": "train", "image": "a/diffusion-tpu@sha256:b", "command": TRAIN}
    training = {"metadata": {"name": "p"}, "spec": {"containers": [run]}}
    for kind, claimed in (("ReplicaSet", True), ("Job", False)):
        owned = {"name": "p", "ownerReferences": [{"kind": kind, "name": "o"}]}
        assert is_claimed({**pod, "metadata": owned}) is claimed
        assert is_claimed({**training, "metadata": owned})


def test_a_job_with_the_worker_of_a_batch_is_the_agents_with_the_engine_beside_it():
    engine = {"name": "vllm", "image": "vllm/vllm-openai:1", "restartPolicy": "Always"}
    worker = {"name": "batch", "image": "a/batch@sha256:b"}
    owned = {"name": "p", "ownerReferences": [{"kind": "Job", "name": "o"}]}
    pod = {"metadata": owned, "spec": {"containers": [worker], "initContainers": [engine]}}
    assert is_claimed(pod)
    assert sidecars(pod) == [engine]


def test_a_server_in_a_set_of_jobs_is_the_agents_because_the_set_ends_it():
    engine = {"name": "vllm", "image": "vllm/vllm-openai:1"}
    idle = {"name": "work", "image": "python:3.12"}
    of_set = {
        "labels": {"jobset.sigs.k8s.io/jobset-name": "s"},
        "name": "p",
        "ownerReferences": [{"kind": "Job", "name": "o"}],
    }
    assert is_claimed({"metadata": of_set, "spec": {"containers": [engine]}})
    assert not is_claimed({"metadata": of_set, "spec": {"containers": [idle]}})


def test_the_command_tells_a_training_run_from_the_server():
    image = "us-docker.pkg.dev/p/platform/diffusion-tpu@sha256:abc"
    assert kind_of({"name": "c", "image": image, "command": TRAIN}) is Kind.TRAINER
    assert kind_of({"name": "c", "image": image, "command": ["python3"]}) is Kind.IMAGES
    assert kind_of({"name": "c", "image": image}) is Kind.IMAGES


def test_of_the_pods_of_jobs_only_those_that_transfer_weights_are_the_agents():
    owned = {"name": "p", "ownerReferences": [{"kind": "Job", "name": "o"}]}
    for name, image, claimed in (
        ("loader", "docker.io/library/python:3.12.15-slim-bookworm", True),
        ("loader", "busybox:1", False),
        ("work", "docker.io/library/python:3.12.15-slim-bookworm", False),
    ):
        pod = {"metadata": owned, "spec": {"containers": [{"name": name, "image": image}]}}
        assert is_claimed(pod) is claimed
        assert not is_claimed({**pod, "metadata": {"name": "p"}})


def stages() -> dict[str, Any]:
    found = [yaml.safe_load(file.read_text()) for file in KWOK_STAGES.glob("*.yaml")]
    return {stage["metadata"]["name"]: stage["spec"] for stage in found}


@pytest.mark.parametrize("name", ["pod-ready", "pod-complete", "pod-delete"])
def test_kwok_leaves_the_agents_pods_alone_by_the_same_rule(name: str):
    conditions = stages()[name]["selector"]["matchExpressions"]
    assert {"key": JQ, "operator": "DoesNotExist"} in conditions


def test_kwok_gives_every_pod_its_address():
    assert JQ not in str(stages()["pod-create"]["selector"])


def test_a_node_is_ready_only_when_it_has_a_range_for_pods():
    conditions = stages()["node-initialize"]["selector"]["matchExpressions"]
    assert {"key": ".spec.podCIDR", "operator": "Exists"} in conditions


def test_kwok_is_given_every_stage():
    files = [Path(argument.removeprefix("--config=")) for argument in kwok_args()]
    assert [file.name for file in files] == [
        "node-initialize.yaml",
        "pod-complete.yaml",
        "pod-create.yaml",
        "pod-delete.yaml",
        "pod-ready.yaml",
    ]
    assert all(file.exists() for file in files)


def test_the_parts_of_disaggregated_serving_are_told_apart():
    picker = {"name": "epp", "image": "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0"}
    sidecar = {
        "name": "routing-proxy",
        "image": "ghcr.io/llm-d/llm-d-routing-sidecar:v0.8.0",
        "restartPolicy": "Always",
    }
    once = {**sidecar, "restartPolicy": "Never"}
    assert kind_of(picker) is Kind.PD_PICKER
    assert kind_of(sidecar) is Kind.SIDECAR
    pod = {"spec": {"containers": [picker], "initContainers": [sidecar, once]}}
    assert is_claimed(pod)
    assert sidecars(pod) == [sidecar]
