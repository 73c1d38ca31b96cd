"""A wrong command line results in one line (option, rule, value) and exit code 2."""

import re
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gke_inference.catalogue.problems import suggest
from scripts import main
from scripts.app import build_app
from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CommandError
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import stack_of


def end_of(monkeypatch, *arguments: str) -> int:
    """Return what the program ends with."""
    monkeypatch.setattr(sys, "argv", ["gke-inference", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("coldstart --doubling abc", "--doubling: must be a number, got 'abc'"),
        ("coldstart --doubling ", "--doubling: must be a number, got ''"),
        ("coldstart --doubling 0", "--doubling: must be at least 1, got 0"),
        ("coldstart --doubling", "--doubling: must have a value, got none"),
        ("coldstart --checked=1", "--checked: takes no value"),
        (
            "coldstart --stak prod",
            "--stak: is not an option of gke-inference coldstart; did you mean",
        ),
        (
            "coldstart -x",
            "-x: is not an option of gke-inference coldstart; `gke-inference coldstart -",
        ),
        ("coldstart a", "gke-inference coldstart: must have no further arguments, got 'a'"),
        (
            "coldstart --stack prd",
            "--stack: must be one of dev, local, prod, staging, got 'prd'",
        ),
        ("quota", "--stack: is required (Stack to use: NAME of a file stacks/Pulumi.NAME.yaml)"),
        ("quota --stack prod --against x", "--against: must be one of cloud, twin, got 'x'"),
        (
            "images",
            "COMMAND: is required (one of list, pin, mirror, build, prepare, bootstrap, lock)",
        ),
        (
            "images lst",
            "COMMAND: must be one of list, pin, mirror, build, prepare, bootstrap, lock, got 'lst'",
        ),
        ("images pin --stak x", "--stak: is not an option of gke-inference images pin; did you"),
        ("kernels tune --chip v4", "--chip: must be one of v5e, v6e, got 'v4'"),
        ("coldstrat", f"COMMAND: must be one of {len(main.COMMANDS)} names, got"),
    ],
)
def test_a_wrong_command_line_is_one_line_of_one_form(monkeypatch, capsys, line, said) -> None:
    assert end_of(monkeypatch, *line.split(" ")) == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert err.startswith(f"error: {said}")
    assert len(err.splitlines()) == 1
    assert out == ""


def test_a_word_of_a_long_list_is_found_by_what_it_is_near() -> None:
    for word, meant in (
        ("l4", "nvidia-l4"),
        ("tpuv6e", "tpu-v6e"),
        ("tpu-v7x", "tpu7x"),
        ("TPU7X", "tpu7x"),
        ("chips/tpu7x.yaml", "tpu7x"),
    ):
        known = ["nvidia-a100-40gb", "nvidia-l4", "tpu-v6e", "tpu7x"]
        assert suggest(word, known) == f"; did you mean {meant!r}?"


def test_a_slip_in_the_first_part_of_a_long_name_is_seen() -> None:
    assert suggest("lama", ["gemma-3-27b", "llama-3.1-8b"]) == "; did you mean 'llama-3.1-8b'?"
    assert suggest("wizard", ["gemma-3-27b", "llama-3.1-8b"]) == ""


def test_a_scenario_that_is_a_word_is_one_of_those_there_are() -> None:
    with pytest.raises(CommandError, match=r"^--scenario: must be one of .*; did you mean 'burst'"):
        scenario_file("burts")
    assert scenario_file("./mine.yaml").name == "mine.yaml"


def test_the_argument_that_names_a_stack_is_what_the_error_names() -> None:
    with pytest.raises(CommandError, match=r"^STACK: must be one of .*got ''"):
        stack_of("", "STACK")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("clients", "cp docs/examples/clients/Pulumi.clients.yaml stacks/"),
        ("search", "cp docs/examples/gitops/Pulumi.*.yaml stacks/"),
    ],
    ids=["one stack", "stacks that belong together"],
)
def test_an_example_that_was_not_copied_comes_with_the_command(name, command) -> None:
    with pytest.raises(CommandError) as refused:
        stack_of(name)
    assert str(refused.value).endswith(f"got '{name}'; for the example, first run: {command}")


def test_an_interrupted_command_says_how_to_go_on(monkeypatch, capsys) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scripts.plan.coldstart.plan_of", interrupted)
    assert end_of(monkeypatch, "coldstart") == ExitCode.INTERRUPTED
    assert "the same command" in capsys.readouterr().err


def command_lines() -> list[str]:
    """Return the words of every command and subcommand."""
    program: Any = typer.main.get_command(build_app())
    return [
        line
        for name, command in program.commands.items()
        for line in (
            [f"{name} {subcommand}" for subcommand in command.commands]
            if hasattr(command, "commands")
            else [name]
        )
    ]


LINES = command_lines()


@pytest.mark.parametrize("line", LINES)
def test_every_command_refuses_an_unknown_option_in_one_line(monkeypatch, capsys, line) -> None:
    assert end_of(monkeypatch, *line.split(), "--no-such-option") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert err.startswith(f"error: --no-such-option: is not an option of gke-inference {line}; ")
    assert (len(err.splitlines()), out) == (1, "")


@pytest.mark.parametrize("line", [line for line in LINES if line != "check"])
def test_every_command_refuses_an_argument_too_many_in_one_line(monkeypatch, capsys, line) -> None:
    assert end_of(monkeypatch, *line.split(), "a", "b", "c") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert (len(err.splitlines()), out) == (1, "")


@pytest.fixture(scope="module")
def program() -> typer.Typer:
    return build_app()


@pytest.mark.parametrize("line", LINES)
def test_help_cuts_no_word_at_80_columns_and_offers_no_flag_that_does_nothing(
    program, monkeypatch, line
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(program, [*line.split(), "--help"]).stdout
    assert "…" not in said
    assert set(re.findall("--no-[a-z]+", said)) <= {"--no-weights"}
    assert max(map(len, said.splitlines())) <= 80
