"""What is wrong with a command line is one line: option, rule, value; and exit code 2."""

import sys

import pytest
import typer
from typer.testing import CliRunner

from infra.stack.problems import suggest
from scripts import main
from scripts.console import CommandError, Exit
from scripts.docs_cli import cli_page
from scripts.scenario_files import scenario_file
from scripts.words import stack_of


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
        ("coldstart --json=1", "--json: takes no value"),
        ("coldstart --stak prod", "--stak: is no option of gke-inference coldstart; did you mean"),
        ("coldstart -x", "-x: is no option of gke-inference coldstart; `gke-inference coldstart -"),
        ("coldstart a", "gke-inference coldstart: got unexpected extra argument(s) (a)"),
        (
            "coldstart --stack prd",
            "--stack: must be one of dev, local, prod, staging, got 'prd'",
        ),
        ("quota", "--stack: is required (Environment: a file stacks/Pulumi.NAME.yaml)"),
        ("quota --stack prod --against x", "--against: must be one of cloud, twin, got 'x'"),
        ("images", "ACTION: is required (one of list, pin, mirror, build, lock)"),
        ("images lst", "ACTION: must be one of list, pin, mirror, build, lock, got 'lst'; did you"),
        ("coldstrat", "COMMAND: must be one of up, status"),
    ],
)
def test_a_wrong_command_line_is_one_line_of_one_form(monkeypatch, capsys, line, said) -> None:
    assert end_of(monkeypatch, *line.split(" ")) == Exit.ERROR
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


def test_an_interrupted_command_says_how_to_go_on(monkeypatch, capsys) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scripts.coldstart.plan_of", interrupted)
    assert end_of(monkeypatch, "coldstart") == Exit.INTERRUPTED
    assert "the same command" in capsys.readouterr().err


def test_the_reference_says_each_exit_code_once() -> None:
    page = cli_page()
    for code in Exit:
        assert page.count(f"\n| {code.value} | {code.meaning} |") == 1


@pytest.fixture(scope="module")
def program() -> typer.Typer:
    return main.build_app()


@pytest.mark.parametrize("name", main.COMMANDS)
def test_help_cuts_no_word_at_80_columns_and_offers_no_flag_that_does_nothing(
    program, monkeypatch, name
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(program, [name, "--help"]).stdout
    assert "…" not in said
    assert "--no-" not in said
    assert max(map(len, said.splitlines())) <= 80
