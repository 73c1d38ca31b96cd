"""Flags and variables of a user's own: they reach every engine, and are checked before anything."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.engine_flags import flags
from gke_inference.serving.launcher.commands import arguments
from gke_inference.serving.model_objects import deployments
from gke_inference.serving.model_server import ModelServer
from infra.reading.load import STACKS, parse, platform_of
from infra.stack.problems import StackError
from tests.model_plans import planned
from tests.shipped_stacks import EXAMPLES
from twin.engines.vllm_flags import parse as as_vllm_reads
from workloads.diffusion.__main__ import parser

MODEL = "llama-3.1-8b"
H200: Any = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "network": "rdma",
    "provisioning": "flex-start",
}
H100S: Any = {
    "accelerator": "nvidia-h100-80gb",
    "count": 8,
    "hosts": 2,
    "network": "tcp",
    "provisioning": "spot",
}
V6E: Any = {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"}
OWN = {
    "settings": {
        "engine_args": {"max-num-batched-tokens": "4096", "enforce-eager": "true"},
        "engine_env": {"VLLM_LOGGING_LEVEL": "DEBUG"},
    },
}


def templates(args: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of a server, a leader's and a worker's of a group."""
    made = deployments(planned(args))
    found: list[dict[str, Any]] = []
    for each in made.values():
        spec = each["spec"]
        group = spec.get("leaderWorkerTemplate")
        found += (
            [spec["template"]]
            if group is None
            else [group["leaderTemplate"], group["workerTemplate"]]
        )
    return found


def engines(args: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of a server's engines."""
    return [
        container
        for template in templates(args)
        for container in template["spec"]["containers"]
        if container["name"] != "adapter-loader"
    ]


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def on(args: dict[str, Any], *rungs: Any, **changes: Any) -> dict[str, Any]:
    kept = {key: value for key, value in args.items() if key != "adapters"}
    return {**kept, **OWN, "rungs": list(rungs), **changes}


IMAGES: Any = {
    "served_name": "flux-schnell",
    "task": "image",
    "weights": "gs://acme-models/flux-schnell",
}


@pytest.fixture
def forms(args, dual) -> dict[str, dict[str, Any]]:
    """vLLM in every form and role that there is."""
    return {
        "paired": {**args, **OWN},
        "dual-container": {**dual, **OWN},
        "prefill": on(args, H200, role="prefill"),
        "decode": on(args, H200, role="decode"),
        "group": on(args, H100S, size={"parameters_billion": 405.0}),
    }


@pytest.mark.parametrize("form", ["paired", "dual-container", "prefill", "decode", "group"])
def test_flags_and_variables_reach_every_engine_container_of_every_form(forms, form):
    found = engines(forms[form])
    assert len(found) == (1 if form in ("prefill", "decode") else 2)
    for container in found:
        assert "--enforce-eager" in container["args"]
        assert "--max-num-batched-tokens=4096" in container["args"]
        assert variables(container)["VLLM_LOGGING_LEVEL"] == "DEBUG"
        words = [word.replace("$(LWS_WORKER_INDEX)", "0") for word in container["args"]]
        read = as_vllm_reads(words)
        assert (read.max_num_batched_tokens, read.enforce_eager) == (4096, True)


@pytest.mark.parametrize(
    ("engine", "rung", "name", "value", "written"),
    [
        ("sglang", H200, "chunked-prefill-size", "4096", "--chunked-prefill-size=4096"),
        ("tgi", H200, "max-concurrent-requests", "64", "--max-concurrent-requests=64"),
        ("triton", H200, "default-max-tokens", "32", "--default-max-tokens=32"),
        ("diffusion", V6E, "max-candidates", "2", "--max-candidates=2"),
        ("vllm", V6E, "async-scheduling", "false", "--no-async-scheduling"),
    ],
)
def test_every_engine_gets_its_own_flags(args, engine, rung, name, value, written):
    wanted = on(args, rung, engine=engine, settings={"engine_args": {name: value}})
    wanted |= IMAGES if engine == "diffusion" else {}
    (container,) = engines(wanted)
    assert container["args"][-1] == written


def test_the_image_server_reads_the_flags_that_are_written_for_it(args):
    settings = {"engine_args": {"guidance": "2.5"}}
    wanted = on(args, V6E, engine="diffusion", settings=settings) | IMAGES
    (container,) = engines(wanted)
    assert parser().parse_args(["serve", *container["args"]]).guidance == 2.5


@pytest.mark.parametrize("rung", [V6E, H200])
def test_the_launcher_finds_in_its_spec_what_the_pod_says(args, rung):
    given = on(args, rung)
    (container,) = engines(given)
    (serving,) = planned(given).spec.serving.values()
    assert container["args"] == arguments(serving)


def test_a_flag_with_several_values_gets_each_as_a_word():
    assert flags("vllm")["cudagraph-capture-sizes"].written("1 2 4") == [
        "--cudagraph-capture-sizes",
        "1",
        "2",
        "4",
    ]


OWNED = "must not be set: the platform owns it"
REFUSED = [
    ("engine_args", "max-num-batched-token", "1", "did you mean 'max-num-batched-tokens'?"),
    ("engine_args", "--seed", "1", "a flag of vLLM 0.32.0, got '--seed'; did you mean 'seed'?"),
    ("engine_args", "asc", "2", "got 'asc'; did you mean 'api-server-count'?"),
    ("engine_args", "port", "9000", "metrics use the platform's), got '9000'"),
    ("engine_args", "tensor-parallel-size", "2", f"{OWNED} (settings.tensor_parallel), got '2'"),
    ("engine_args", "model", "x", f"{OWNED} (weights), got 'x'"),
    ("engine_args", "headless", "false", f"{OWNED} (spanning), got 'false'"),
    ("engine_args", "seed", "one", "must be a whole number, got 'one'"),
    ("engine_args", "max-num-batched-tokens", "many", "number such as 8192 or 8k, got 'many'"),
    ("engine_args", "enforce-eager", "maybe", "must be one of false, true, got 'maybe'"),
    ("engine_args", "additional-config", "{", "must be JSON, got '{'"),
    ("engine_args", "performance-mode", "fast", "must be one of "),
    ("engine_env", "HOME", "/root", f"{OWNED} (the pod's writable folder), got '/root'"),
    ("engine_env", "TPU_TOPOLOGY", "2x2", f"{OWNED} (the TPU device plugin), got '2x2'"),
    ("engine_env", "MY-NAME", "1", "must be letters, digits and underscores, got 'MY-NAME'"),
]


@pytest.mark.parametrize(("field", "name", "value", "message"), REFUSED)
def test_what_may_not_be_given_is_refused_with_its_name_the_rule_and_the_value(
    recorder, args, field, name, value, message
):
    wanted: Any = {**args, "settings": {field: {name: value}}}
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: ModelServer("llama", wanted))
    head, tail = field.split("_")
    path, rule = refused.value.args
    assert path == f"settings.{head}{tail.title()}.{name}"
    assert message in rule
    assert recorder.registrations[1:] == []


@pytest.mark.parametrize(("field", "name", "value", "message"), REFUSED)
def test_a_stack_refuses_the_same_on_its_own_path(field, name, value, message):
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    platform["models"][MODEL]["settings"] = {field: {name: value}}
    with pytest.raises(StackError) as refused:
        parse(json.dumps(platform))
    assert str(refused.value).startswith(f"models.{MODEL}.settings.{field}.{name} must ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_chunk_of_sglang_that_is_no_multiple_of_its_pages_is_refused():
    platform = platform_of(EXAMPLES / "engines" / "Pulumi.engines.yaml")
    settings = platform["models"]["qwen3-4b"].setdefault("settings", {})
    settings |= {"block_size": 64, "engine_args": {"chunked-prefill-size": 4096}}
    assert parse(json.dumps(platform))
    settings["engine_args"] = {"chunked-prefill-size": 100}
    with pytest.raises(StackError, match="chunked-prefill-size must be a multiple of block_size, "):
        parse(json.dumps(platform))


def test_values_of_yaml_are_written_as_the_engine_reads_them(args):
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    own = {"max-num-batched-tokens": 4096, "enforce-eager": True, "seed": 7}
    platform["models"][MODEL]["settings"] = {"engine_args": own}
    model = parse(json.dumps(platform)).models[MODEL]
    assert model.settings.engine_args == own
    found = engines({**args, "settings": {"engine_args": own}})
    assert found[0]["args"][-3:] == [
        "--enforce-eager",
        "--max-num-batched-tokens=4096",
        "--seed=7",
    ]
