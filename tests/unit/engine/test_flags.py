"""Every command line that the platform can write, against what each engine's release takes.

vLLM: the recorded table of its real argument parser, which
simulator/tests/running/engines compares with the installed release. Others: flags recorded from
the release that the lock names.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from gke_inference.catalogue import engine_flags, versions
from gke_inference.catalogue.engine_tables import tables
from gke_inference.catalogue.engines import engine, engine_names
from gke_inference.serving.launcher import commands
from gke_inference.serving.launcher.spec import Serving
from tests.servings import every_serving
from tests.stack_plans import plans_of_stacks
from twin.engines import vllm_flags as flags
from twin.engines.real import install
from workloads.diffusion.__main__ import parser


def of_stacks() -> Iterator[tuple[str, Serving]]:
    for where, plan in plans_of_stacks():
        for kind, serving in plan.serving.items():
            yield f"{where} {kind}", serving


def test_vllm_takes_every_command_line_of_every_stack(capsys: pytest.CaptureFixture[str]):
    seen = 0
    for where, serving in of_stacks():
        if serving.engine == "vllm":
            seen += 1
            assert refusal(commands.arguments(serving), capsys) == "", where
    assert seen >= 10


def test_vllm_takes_every_setting_on_every_accelerator(capsys: pytest.CaptureFixture[str]):
    written = list(every_serving("vllm"))
    assert {serving.kind for serving in written} == {"gpu", "tpu"}
    for serving in written:
        assert refusal(commands.arguments(serving), capsys) == "", serving
    unknown = [*commands.arguments(written[0]), "--no-such-flag=1"]
    assert "unrecognized arguments: --no-such-flag=1" in refusal(unknown, capsys)


def refusal(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    words = [word.replace("$(LWS_WORKER_INDEX)", "0") for word in argv]
    try:
        flags.parse(words)
    except SystemExit:
        return capsys.readouterr().err
    return ""


@pytest.mark.parametrize("name", [name for name in engine_names() if name != "vllm"])
def test_other_engines_have_every_flag_with_its_choices(name: str):
    table = engine_flags.flags(name)
    written = list(every_serving(name))
    assert written
    for serving in written:
        for word, value in pairs(commands.arguments(serving)):
            flag = table[word.removeprefix("--")]
            assert (value is None) == (flag.type == "switch"), word
            if flag.choices:
                assert value in flag.choices, (word, value)


@pytest.mark.parametrize("name", engine_names())
def test_the_platform_owns_every_flag_that_it_writes(name: str):
    table = engine_flags.flags(name)
    written = {
        word.removeprefix("--")
        for serving in every_serving(name)
        for word, _ in pairs(commands.arguments(serving))
    }
    plain = {word if word in table else word.removeprefix("no-") for word in written}
    assert {word for word in plain if table[word].owner is None} == set()


@pytest.mark.parametrize("name", engine_names())
def test_every_flag_that_the_platform_owns_is_one_of_the_release(name: str):
    assert set(tables("owned_flags.yaml")[name]) - set(engine_flags.flags(name)) == set()


def test_the_flags_of_the_image_server_are_those_of_its_parser():
    made: Any = parser()
    serve = made._subparsers._group_actions[0].choices["serve"]
    words = {word for action in serve._actions for word in action.option_strings}
    assert {f"--{name}" for name in engine_flags.flags("diffusion")} == words - {"-h", "--help"}


def pairs(argv: list[str]) -> Iterator[tuple[str, str | None]]:
    for at, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        flag, equals, value = word.partition("=")
        behind = argv[at + 1] if at + 1 < len(argv) and not argv[at + 1].startswith("--") else None
        yield flag, value if equals else behind


def releases(name: str) -> set[str]:
    """Return the release whose flags were read, and those whose differences were."""
    recorded = engine_flags.document(name)
    return {recorded["version"], *recorded.get("other_releases", ())}


def test_no_flag_that_the_platform_writes_on_a_tpu_is_one_that_its_release_lacks():
    lacks = set(engine_flags.document("vllm")["other_releases"]["0.29.0"]["lacks"])
    assert lacks <= set(engine_flags.document("vllm")["flags"])
    written = {
        word
        for serving in every_serving("vllm")
        if serving.kind == "tpu"
        for word, _ in pairs(commands.arguments(serving))
    }
    assert "--max-model-len" in written
    assert written & lacks == set()


def test_flags_were_recorded_from_the_releases_that_the_lock_names():
    for kind in ("gpu", "tpu"):
        assert versions.engine_version(f"vllm_{kind}") in releases("vllm")
    assert flags.version() == install.VERSION == versions.engine_version("vllm_gpu")
    for name in engine_names():
        recorded = engine_flags.document(name)
        for kind in engine(name).hardware:
            assert versions.engine_version(f"{name}_{kind}") in releases(name)
        assert recorded["date"]
        assert recorded["source"]


def test_every_engine_of_the_table_has_a_command_and_an_image_of_the_lock():
    assert set(commands.ENGINES) == set(engine_names())
    for name in engine_names():
        for able in engine(name).hardware.values():
            assert versions.image(able.image).repository
            assert able.source


def test_choices_of_numbers_are_written_as_text():
    flag = engine_flags.flags("sglang")["max-lora-chunk-size"]
    assert flag.problem("32") is None
    assert "must be one of 16, 32, 64, 128" in str(flag.problem("33"))
