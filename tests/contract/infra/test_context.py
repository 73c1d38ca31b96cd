"""`context` of a stack within what the published configuration of a known model allows."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gke_inference.sizing import architectures
from gke_inference.sizing.architectures import known, longest_context
from infra.reading.load import STACKS, parse, platform_of
from infra.stack.problems import StackError

MODELS = Path(architectures.__file__).parent / "data" / "models.yaml"
CHIPS = {"rungs": [{"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "spot"}]}
QWEN = {
    "weights": "qwen3-32b",
    "capacity": "chips",
    "size": {"parameters_billion": 32.8},
    "replicas": {"min": 1, "max": 2},
}
LONG = 131_072
YARN = json.dumps(
    {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32_768,
        },
        "max_position_embeddings": LONG,
    }
)


def read(**changed: Any) -> Any:
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    platform["capacity"]["chips"] = CHIPS
    platform["models"]["qwen3-32b"] = {**QWEN, **changed}
    return parse(json.dumps(platform))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_longest_context_of_a_known_model_is_accepted_and_a_token_more_is_refused(engine: str):
    assert read(engine=engine, context=40_960).models["qwen3-32b"].context == 40_960
    with pytest.raises(StackError) as refused:
        read(engine=engine, context=40_961)
    flag = {"sglang": "json-model-override-args", "vllm": "hf-overrides"}[engine]
    assert str(refused.value) == (
        "models.qwen3-32b.context must be at most 40960 for qwen3-32b, got 40961; longer needs "
        f"{flag} in engine_args, with the scaling of its positions"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {"engine_args": {"hf-overrides": YARN}}},
        {"settings": {"engine_env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": 1}}},
        {"engine": "sglang", "settings": {"engine_args": {"json-model-override-args": YARN}}},
        {"weights": "gs://acme-models/my-own-model", "size": {"parameters_billion": 32.8}},
    ],
)
def test_a_model_with_scaled_positions_or_of_its_own_takes_a_longer_context(
    changed: dict[str, Any],
):
    name = "own" if "weights" in changed else "qwen3-32b"
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    platform["capacity"]["chips"] = CHIPS
    platform["models"][name] = {**QWEN, "context": LONG, **changed}
    assert parse(json.dumps(platform)).models[name].context == LONG


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("qwen3-32b", 40_960),
        ("Qwen/Qwen3-0.6B", 40_960),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 262_144),
        ("Qwen/Qwen2.5-7B-Instruct", 32_768),
        ("Qwen/Qwen2.5-7B", 131_072),
        ("llama-3.1-8b", 131_072),
        ("deepseek-ai/DeepSeek-R1", 163_840),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 131_072),
    ],
)
def test_variants_of_a_model_have_contexts_of_their_own(name: str, tokens: int):
    found = longest_context(name, "m")
    assert found is not None
    assert found[1] == tokens


@pytest.mark.parametrize(
    "name",
    [
        "Qwen/Qwen2.5-7B-Instruct-1M",
        "llama-3-8b-instruct-262k",
        "google/gemma-4-12b-it",
        "Qwen/Qwen3.5-4B",
        "stabilityai/sdxl-turbo",
        "own",
    ],
)
def test_a_context_that_is_not_known_exactly_limits_nothing(name: str):
    assert longest_context(name, "m") is None


def test_a_context_is_known_for_every_model_whose_configuration_was_read():
    read_ones = [one for one in known() if one.source.startswith("config ") and one.context]
    assert len(read_ones) >= 40
    assert all(longest_context(one.name, "m") is not None for one in read_ones)


def test_a_context_that_nobody_could_read_is_marked_as_unverified():
    entries = yaml.load(MODELS.read_text(), yaml.CSafeLoader)["contexts"]
    known = [each for each in entries if each["context"] is not None]
    assert {each["confidence"] for each in known} <= {"documented", "secondary", "unverified"}
    read = [each["match"] for each in known if each["confidence"] != "unverified"]
    assert read == ["qwen-?3.*coder.*480b"]
    assert all("confidence" not in each for each in entries if each["context"] is None)


def test_a_context_without_its_confidence_is_refused(monkeypatch: pytest.MonkeyPatch):
    entry = {"match": "new-model", "context": 8192, "source": "somewhere"}
    monkeypatch.setattr(architectures, "_document", lambda: {"contexts": [entry]})
    rule = "must be one of documented, secondary, unverified where there is a context, got None"
    with pytest.raises(ValueError, match=rf"contexts\.new-model\.confidence: {rule}"):
        architectures._variants.__wrapped__()
