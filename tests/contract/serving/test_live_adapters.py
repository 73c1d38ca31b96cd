"""Flags, volume and container of adapters that come while a model serves."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference.serving.live_adapters import script
from tests.contract.serving.test_model_server import build, deployments, pod

LIVE = {"source": "gs://acme-models/llama/live-adapters", "max_rank": 32, "slots": 4}


def containers(recorder: Any, args: dict[str, Any]) -> list[dict[str, Any]]:
    return pod(deployments(recorder, args)["llama-8b-gpu"])["containers"]


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


def test_the_engine_has_room_for_adapters_that_are_still_to_come(recorder, gpu_only):
    engine = containers(recorder, {**gpu_only, "live_adapters": LIVE})[0]
    found = [flag for flag in engine["args"] if "lora" in flag]
    assert found == [
        "--enable-lora",
        "--max-loras=4",
        "--max-cpu-loras=17",  # the one of the stack, and four times the slots
        "--max-lora-rank=32",
        "--lora-modules",
    ]
    assert environment(engine)["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"


def test_without_adapters_of_the_stack_no_module_is_named(recorder, gpu_only):
    given = {key: value for key, value in gpu_only.items() if key != "adapters"}
    engine = containers(recorder, {**given, "live_adapters": {"source": LIVE["source"]}})[0]
    found = [flag for flag in engine["args"] if "lora" in flag]
    assert found == ["--enable-lora", "--max-loras=8", "--max-cpu-loras=32", "--max-lora-rank=16"]


def test_an_engine_without_live_adapters_cannot_be_told_to_load_any(recorder, gpu_only):
    engine = containers(recorder, gpu_only)[0]
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in environment(engine)


@pytest.mark.parametrize("form", ["gpu_only", "dual"])
def test_where_all_adapters_are_known_each_replica_is_asked_for_one_before_it_is_ready(
    recorder, request, form
):
    made = deployments(recorder, request.getfixturevalue(form))
    (deployment,) = made.values()
    loader = pod(deployment)["containers"][-1]
    told = environment(loader)
    assert (loader["name"], told["ADAPTERS_FOLDER"]) == ("adapter-loader", "")
    assert json.loads(told["GIVEN_ADAPTERS"]) == ["sql"]
    assert loader["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 8010}
    assert loader["volumeMounts"] == []


def test_a_model_without_adapters_has_nothing_beside_it(recorder, gpu_only):
    plain = {key: value for key, value in gpu_only.items() if key != "adapters"}
    assert [entry["name"] for entry in containers(recorder, plain)] == ["vllm"]


def test_the_folder_is_mounted_so_that_new_files_are_seen(recorder, gpu_only):
    spec = pod(deployments(recorder, {**gpu_only, "live_adapters": LIVE})["llama-8b-gpu"])
    volume = next(entry for entry in spec["volumes"] if entry["name"] == "live-adapters")
    options = volume["csi"]["volumeAttributes"]["mountOptions"].split(",")
    assert "file-system:kernel-list-cache-ttl-secs:0" in options
    assert not any(option.endswith(":-1") for option in options)
    assert volume["csi"]["readOnly"] is True
    assert "gke-gcsfuse-cache" not in str(volume)


def test_a_loader_runs_beside_the_engine_in_the_same_image(recorder, gpu_only):
    engine, loader = containers(recorder, {**gpu_only, "live_adapters": LIVE})
    assert loader["image"] == engine["image"]
    assert loader["command"] == ["python3", "-c", script()]
    told = environment(loader)
    assert told["ADAPTERS_FOLDER"] == "/mnt/live-adapters/llama/live-adapters"
    assert told["ENGINE_URL"] == "http://$(POD_IP):8000"
    assert json.loads(told["BASE_NAMES"]) == ["llama-3.1-8b", "sql"]
    assert loader["env"][0]["name"] == "POD_IP", "others refer to it"
    mounts = {mount["mountPath"] for mount in loader["volumeMounts"]}
    assert mounts == {"/mnt/live-adapters"}


def test_no_replica_is_ready_before_its_adapters_are_loaded(recorder, gpu_only):
    loader = containers(recorder, {**gpu_only, "live_adapters": LIVE})[1]
    assert loader["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 8010}


def test_the_loader_compiles_for_the_oldest_python_of_the_images():
    compile(script(), "adapter_loader.py", "exec")


@pytest.mark.parametrize(
    ("live", "message"),
    [
        ({**LIVE, "max_rank": 20}, "must be one of 1, 8, 16, 32, 64, 128, 256, 320, 512, got 20"),
        ({**LIVE, "slots": 0}, "must be 1 to 64, got 0"),
        ({**LIVE, "source": "llama"}, "must be gs://BUCKET/PATH"),
    ],
)
def test_what_cannot_be_is_refused(recorder, gpu_only, live, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, {**gpu_only, "live_adapters": live})


def test_embeddings_and_the_dual_form_have_none(recorder, gpu_only, dual):
    plain = {key: value for key, value in gpu_only.items() if key != "adapters"}
    with pytest.raises(pulumi.InputPropertyError, match="task is embed"):
        build(recorder, {**plain, "task": "embed", "live_adapters": LIVE})
    with pytest.raises(pulumi.InputPropertyError, match="dual-container"):
        build(recorder, {**dual, "live_adapters": LIVE})
