"""Names that engines look up when they start: parsers, backends and formats of each release."""

import json
from typing import Any

import pytest

from gke_inference.catalogue import engine_flags, engine_registries
from gke_inference.catalogue.accelerators import accelerator, accelerator_names
from gke_inference.catalogue.engine_registries import names, registries
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.versions import engine_version
from infra.reading.load import STACKS, parse, platform_of
from infra.stack.problems import StackError

MODEL = "llama-3.1-8b"
TOOLS = {"enable-auto-tool-choice": True}


def read(engine_args: dict[str, Any], **settings: Any) -> Any:
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    platform["models"][MODEL]["settings"] = {"engine_args": engine_args, **settings}
    return parse(json.dumps(platform))


def refusal(engine_args: dict[str, Any]) -> str:
    with pytest.raises(StackError) as refused:
        read(engine_args)
    return str(refused.value)


@pytest.mark.parametrize(
    ("engine_args", "name", "end"),
    [
        (
            {**TOOLS, "tool-call-parser": "llama3-json"},
            "tool-call-parser",
            "step3p5, xlam with vLLM 0.29.0, got 'llama3-json'; did you mean 'llama3_json'?",
        ),
        (
            {"reasoning-parser": "deepseek-r1"},
            "reasoning-parser",
            "step3p5 with vLLM 0.29.0, got 'deepseek-r1'; did you mean 'deepseek_r1'?",
        ),
        (
            {"attention-backend": "flashattention"},
            "attention-backend",
            "CUSTOM with vLLM 0.29.0, got 'flashattention'; did you mean 'FLEX_ATTENTION'?",
        ),
        (
            {"optimization-level": 9},
            "optimization-level",
            "must be one of 0, 1, 2, 3 with vLLM 0.29.0, got '9'",
        ),
        (
            {"config-format": "gguf"},
            "config-format",
            "must be one of auto, hf, mistral with vLLM 0.29.0, got 'gguf'",
        ),
    ],
)
def test_a_name_that_vllm_does_not_have_is_refused_with_the_list_and_a_suggestion(
    engine_args: dict[str, Any], name: str, end: str
):
    said = refusal(engine_args)
    start = f"models.{MODEL}.settings.engine_args.{name} must be one of "
    assert said.startswith(start)
    assert said.endswith(end)
    assert "\n" not in said


@pytest.mark.parametrize(
    "engine_args",
    [
        {**TOOLS, "tool-call-parser": "llama3_json"},
        {**TOOLS, "tool-call-parser": "own", "tool-parser-plugin": "/mnt/own.py"},
        {"reasoning-parser": "own", "reasoning-parser-plugin": "/mnt/own.py"},
        {"attention-backend": "flash_attn"},
    ],
)
def test_names_of_the_release_and_of_plugins_are_accepted(engine_args: dict[str, Any]):
    assert read(engine_args).models[MODEL].settings.engine_args == engine_args


def test_plugins_of_an_image_may_have_names_of_their_own():
    found = read({"tokenizer-mode": "own"}, engine_env={"VLLM_PLUGINS": "own"})
    assert found.models[MODEL].settings.engine_args == {"tokenizer-mode": "own"}


def test_a_name_that_only_the_release_for_gpus_has_is_refused_on_a_tpu():
    said = refusal({**TOOLS, "tool-call-parser": "qwen3_json"})
    assert said.endswith("with vLLM 0.29.0, got 'qwen3_json'; did you mean 'qwen3_coder'?")
    assert "qwen3_json" in names("vllm", "tool-call-parser", "0.32.0")


def test_every_registry_is_of_a_flag_and_of_the_releases_of_the_lock():
    releases = {engine_version("vllm_gpu"), engine_version("vllm_tpu")}
    known = engine_flags.flags("vllm")
    for flag in registries("vllm"):
        assert known[flag].type == "string", flag
        assert not known[flag].choices, flag
        assert all(names("vllm", flag, release) for release in releases), flag


def test_every_quantization_that_the_platform_offers_is_one_of_the_release():
    offered = {
        (name, chip, word)
        for name in ("sglang", "vllm")
        for chip in accelerator_names()
        if (able := engine(name).abilities(accelerator(chip).kind, chip))
        for word in able.quantization
    }
    assert {name for name, _, _ in offered} == {"sglang", "vllm"}
    for name, chip, word in sorted(offered):
        able = engine(name).abilities(accelerator(chip).kind, chip)
        assert able is not None
        assert word in names(name, "quantization", engine_version(able.image)), (name, chip)


def test_a_choice_of_any_engine_is_suggested():
    known = engine_flags.flags("sglang")
    problem = known["tool-call-parser"].problem("llama3_json")
    assert problem is not None
    assert problem.note == engine_registries.hint("llama3_json", known["tool-call-parser"].choices)
    assert problem.note == "; did you mean 'llama3'?"


@pytest.mark.parametrize(
    ("engine_args", "message"),
    [
        ({"log-level": "debug"}, "CRITICAL, ERROR, WARNING, INFO, DEBUG, NOTSET, got 'debug'"),
        ({"enable-log-outputs": True}, "the platform owns it (logs must not contain answers)"),
        ({"enable-eplb": True}, "enable-eplb needs 'enable-expert-parallel: true'"),
    ],
)
def test_what_else_vllm_refuses_at_its_start_is_refused(engine_args: Any, message: str):
    assert message in refusal(engine_args)


@pytest.mark.parametrize(
    ("engine_args", "message"),
    [
        (
            {"tool-strict-level": "auto"},
            "tool-strict-level must be a flag of vLLM 0.29.0 on tpu-v6e, got 'tool-strict-level'",
        ),
        (
            {"kda-prefill-backend": "fused"},
            "kda-prefill-backend must be one of auto, flashkda, triton with vLLM 0.29.0 on "
            "tpu-v6e, got 'fused'",
        ),
    ],
)
def test_a_flag_that_only_the_release_for_gpus_has_is_refused_on_a_tpu(
    engine_args: Any, message: str
):
    assert refusal(engine_args) == f"models.{MODEL}.settings.engine_args.{message}"
