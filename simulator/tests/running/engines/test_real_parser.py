"""The real vLLM's parser of arguments, and what it looks up when it starts."""

import json

import pytest

from gke_inference.catalogue import engine_registries
from simulator.tests.running.engines.real_parser import ask_parser
from tests.stack_plans import command_lines
from twin.engines.real import install
from twin.engines.vllm_flags import flag_table

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_vllm, pytest.mark.timeout(900)]


def test_every_argument_that_the_stacks_write_is_taken_by_the_real_parser():
    written = command_lines("vllm")
    assert len(written) >= 30
    errors = ask_parser("check", json.dumps(list(written.values())))
    assert {where: error for where, error in zip(written, errors, strict=True) if error} == {}
    unknown = [[*next(iter(written.values())), "--no-such-flag=1"]]
    assert "unrecognized arguments: --no-such-flag=1" in ask_parser("check", json.dumps(unknown))[0]


def test_the_table_of_flags_is_that_of_the_real_parser():
    real = ask_parser("table")
    table = flag_table()["flags"]
    assert set(table) == set(real)
    for name, entry in table.items():
        given = {alias for alias in real[name]["aliases"] if not alias.startswith("--no-")}
        assert given <= set(entry.get("aliases", [])), name
        if "choices" in entry or real[name]["choices"]:
            found = {choice for choice in real[name]["choices"] if choice != "None"}
            assert set(map(str, entry.get("choices", ()))) == found, name


def test_the_recorded_registries_are_those_of_the_real_release():
    real = ask_parser("registries")
    assert set(real) == set(engine_registries.registries("vllm"))
    recorded = {name: engine_registries.names("vllm", name, install.VERSION) for name in real}
    assert {name: set(found) for name, found in real.items()} == {
        name: set(found) for name, found in recorded.items()
    }
