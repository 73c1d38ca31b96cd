"""The real SGLang's parser and the checks that it makes before it loads a model, without a GPU."""

import json

import pytest

from gke_inference.catalogue import engine_flags
from gke_inference.serving.launcher import commands
from gke_inference.sizing.architectures import Architecture, find_model
from simulator.dialects import sglang_flags
from simulator.engine.settings import EngineError
from simulator.tests.running.engines.real_parser import ask_parser
from tests.servings import every_serving
from tests.stack_plans import command_lines, model_of
from twin.engines.real.install import SGLANG
from twin.engines.real.model_configs import config_of

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_sglang, pytest.mark.timeout(600)]

_NUMBERS = {"integer": "int", "number": "float"}
MODEL = "qwen3-4b"
PLAIN = [f"--model-path=/mnt/{MODEL}", f"--served-model-name={MODEL}", "--mem-fraction-static=0.9"]
ONLY_ON_GPUS = "--quantization=mxfp4"
"""Registered where there is a GPU: srt/layers/quantization/__init__.py."""
REFUSED = {
    "a context beyond the model's": ["--context-length=40961"],
    "a batch that is no multiple of the pages": ["--page-size=64", "--chunked-prefill-size=100"],
    "slots of adapters without the modules": ["--enable-lora", "--max-lora-rank=16"],
    "a name with a colon": ["--served-model-name=a:b"],
}


def model() -> Architecture:
    found = find_model(MODEL, MODEL)
    assert found is not None
    return found


def refusals(cases: list[tuple[list[str], Architecture]]) -> list[str]:
    """Return why SGLang does not start, for command lines and models; empty where it does."""
    asked = [{"argv": argv, "config": config_of(found)} for argv, found in cases]
    return ask_parser("create", json.dumps(asked), SGLANG)


def test_the_table_of_flags_is_that_of_the_real_parser():
    real = ask_parser("table", environment=SGLANG)
    table = engine_flags.flags("sglang")
    assert engine_flags.release("sglang") == SGLANG.version
    assert {f"--{name}" for name in table} == set(real)
    for name, flag in table.items():
        entry = real[f"--{name}"]
        assert set(flag.choices) == set(entry["choices"] or []) - {"None"}, name
        assert {*flag.aliases} == {*entry["aliases"]} - {f"--no-{name}"}, name
        if flag.type in _NUMBERS:
            assert entry["type"] == _NUMBERS[flag.type], name


def test_the_real_server_takes_every_command_line_that_the_platform_writes():
    of_stacks = [(argv, model_of(argv)) for argv in command_lines("sglang").values()]
    assert len(of_stacks) >= 2
    possible = {tuple(commands.arguments(serving)) for serving in every_serving("sglang")}
    cases = [*of_stacks, *((list(argv), model()) for argv in sorted(possible))]
    found = zip(cases, refusals(cases), strict=True)
    wrong = [(argv, error) for (argv, _), error in found if error]
    assert [(argv, error) for argv, error in wrong if ONLY_ON_GPUS not in argv] == []
    assert [ONLY_ON_GPUS in argv for argv, _ in wrong] == [True]


def test_the_simulated_server_refuses_what_the_real_one_refuses():
    cases = [([*PLAIN, *words], model()) for words in REFUSED.values()]
    for what, (argv, _), error in zip(REFUSED, cases, refusals(cases), strict=True):
        assert error, what
        with pytest.raises(EngineError) as refused:
            sglang_flags.settle(argv, {})
        assert error in str(refused.value), what
