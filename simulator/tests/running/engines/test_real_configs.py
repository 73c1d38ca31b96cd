"""The configuration that the real vLLM makes for the models of the table and of the stacks."""

import json

import pytest

from gke_inference.sizing.architectures import Architecture, known
from gke_inference.sizing.memory import indivisible
from gke_inference.sizing.shapes import shape
from simulator.tests.running.engines.real_parser import ask_parser
from tests.stack_plans import command_lines, model_of
from twin.engines.real.model_configs import config_of, has_config

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_vllm, pytest.mark.timeout(1500)]

_OF_STACKS = ("llama-3.1-8b", "gemma-3-1b", "qwen3-0.6b")
"""A model of each class that the stacks serve, with 32, 4 and 16 attention heads."""
NOT_HERE = (
    "Failed to import Ray",  # the image has it, not this package (data/image_contents.yaml)
    "Expert parallelism load balancing is only supported on CUDA",
)
"""What vLLM refuses for this machine, after all that it checks of the command line."""
_SPLITS = (2, 3, 8, 16, 32)


def refusals(cases: list[tuple[list[str], Architecture]]) -> list[str]:
    """Return why vLLM does not start, for command lines and models; empty where it does."""
    asked = [{"argv": argv, "config": config_of(model)} for argv, model in cases]
    found: list[str] = ask_parser("create", json.dumps(asked))
    assert len(found) == len(cases)
    return found


def test_the_real_engine_makes_its_configuration_from_every_command_line_of_the_stacks():
    cases: dict[tuple[str, ...], tuple[list[str], Architecture]] = {}
    for argv in command_lines("vllm").values():
        model = model_of(argv)
        cases[(model.name, *argv[1:])] = (argv, model)  # buckets have no part in it
    assert len(cases) >= 30
    found = zip(cases, refusals(list(cases.values())), strict=True)
    refused = {line: error for line, error in found if error}
    for here in NOT_HERE:
        assert [line for line in refused if refused[line].startswith(here)], here
    assert {line: e for line, e in refused.items() if not e.startswith(NOT_HERE)} == {}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(_OF_STACKS, id="of the stacks"),
        pytest.param((), id="of the table", marks=pytest.mark.soak),
    ],
)
def test_contexts_and_splits_are_refused_where_the_real_engine_refuses_them(names: tuple[str, ...]):
    models = [each for each in known() if has_config(each) and (not names or each.name in names)]
    assert len(models) == len(names) if names else len(models) > 40
    cases: dict[str, tuple[list[str], Architecture]] = {}
    expected: dict[str, bool] = {}
    for model in models:
        for context in (model.context, model.context + 1):
            where = f"{model.name} with a context of {context}"
            cases[where] = (["", f"--max-model-len={context}"], model)
            expected[where] = context > model.context
        for split in _SPLITS:
            where = f"{model.name} on {split} devices"
            cases[where] = (["", f"--tensor-parallel-size={split}"], model)
            # the rule for KV heads of GPUs is an assertion of the layers, which are not made here
            expected[where] = indivisible(shape(model), split, "tpu") is not None
    assert len(cases) == 7 * len(models)
    found = dict(zip(cases, refusals(list(cases.values())), strict=True))
    assert {where: bool(error) for where, error in found.items()} == expected
    words = ("must be divisible by tensor parallel size", "greater than the derived max_model_len")
    assert all(any(each in error for each in words) for error in found.values() if error)
