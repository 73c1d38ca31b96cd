"""`adapter_rank` of a stack, and the fields that refusals of owned flags and variables name."""

import json
import types
from typing import Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from gke_inference.catalogue.engine_flags import flag_problem, variable_problem
from gke_inference.catalogue.engine_tables import FOLDER, tables
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import check_rung
from gke_inference.intent.adapter_settings import AdapterRank
from gke_inference.serving.launcher.commands import arguments
from gke_inference.serving.model_plan import model_plan
from infra.deploy import serving_arguments as assemble_models
from infra.reading.load import STACKS, parse, platform_of
from infra.rules.engines import in_stack
from infra.stack import Model
from infra.stack.problems import StackError
from tests.contract.infra.resolved import served_in

MODEL = "llama-3.1-8b"


def platform(**more: Any) -> Any:
    found = platform_of(STACKS / "Pulumi.local.yaml")
    found["models"][MODEL] |= more
    return parse(json.dumps(found))


def command_lines(**more: Any) -> list[list[str]]:
    """The engine's arguments on each kind of hardware."""
    stack = platform(**more)
    args = assemble_models.server_args(served_in(stack, MODEL, "us-central1"))
    rungs = [check_rung(rung) for rung in args["rungs"]]
    found = model_plan(args, rungs).spec.serving.values()
    return [arguments(serving) for serving in found]


def test_an_engine_reserves_the_rank_of_its_adapters():
    lines = command_lines(adapters=["sql"], adapter_rank=64)
    assert lines
    assert all("--max-lora-rank=64" in line for line in lines)


def test_without_a_rank_an_engine_reserves_16():
    assert all("--max-lora-rank=16" in line for line in command_lines(adapters=["sql"]))


def test_the_larger_rank_counts_beside_live_adapters():
    more = {"adapters": ["sql"], "adapter_rank": 64, "live_adapters": {"max_rank": 32}}
    assert all("--max-lora-rank=64" in line for line in command_lines(**more))


def test_a_stack_takes_the_ranks_that_engines_have_kernels_for():
    assert get_args(AdapterRank) == (1, 8, 16, 32, 64, 128, 256, 320, 512)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"adapters": ["sql"], "adapter_rank": 20},
            "adapter_rank must be one of 1, .*, got 20",
        ),
        (
            {"adapters": [], "adapter_rank": 64},
            "adapter_rank must not be set without adapters: live_adapters.max_rank is that of "
            "live adapters, got 64",
        ),
        (
            {"adapters": ["sql"], "settings": {"engine_args": {"max-lora-rank": 64}}},
            r"engine_args.max-lora-rank must not be set: the platform owns it \(adapter_rank\)",
        ),
        (
            {"settings": {"engine_args": {"max-num-seqs": 64}}},
            r"engine_args.max-num-seqs must not be set: the platform owns it "
            r"\(settings.max_batch\)",
        ),
    ],
)
def test_what_an_engine_would_refuse_names_the_field_of_the_stack(more: Any, message: str):
    with pytest.raises(StackError, match=message):
        platform(**more)


def owned() -> list[tuple[str, InputError | None]]:
    """Each owned flag and variable, and how its use is refused."""
    variables = yaml.load((FOLDER / "owned_variables.yaml").read_text(), yaml.CSafeLoader)
    found = [
        (f"{engine} {name}", flag_problem(engine, engine, name, "1"))
        for engine, entries in tables("owned_flags.yaml").items()
        for name in entries
    ]
    names = (name.replace("*", "X") for name in variables)
    return found + [(name, variable_problem(name, "1")) for name in names]


def has_field(kind: Any, path: list[str]) -> bool:
    """Whether a class of the stack, or one of a union, has a field at a path."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(has_field(each, path) for each in get_args(kind))
    if not path:
        return True
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return False
    field = kind.model_fields.get(path[0])
    return field is not None and has_field(field.annotation, path[1:])


@pytest.mark.parametrize(("entry", "problem"), owned(), ids=lambda value: str(value)[:40])
def test_every_owned_flag_names_a_field_that_a_stack_has(entry: str, problem: InputError | None):
    assert problem is not None, entry
    owner = in_stack(problem, ("models", "m")).rule.partition("the platform owns it (")[2][:-1]
    word = owner.partition(",")[0]
    if " " not in word:
        assert has_field(Model, word.split(".")), (entry, owner)
    assert "_" not in owner.removeprefix(word), (entry, owner)
    assert " " not in word or "_" not in word, (entry, owner)
