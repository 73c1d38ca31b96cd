"""A wrong command line of `bench` results in one line (option, rule, value) and exit code 2."""

import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bench import main
from bench.command import bench
from scripts.terminal.exit_codes import ExitCode

PROGRAM: Any = typer.main.get_command(bench)
SUBJECTS = list(PROGRAM.commands)


def end_of(monkeypatch, *arguments: str) -> int:
    """Return what the program ends with."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("routing --workers 0", "--workers: must be at least 1, got 0"),
        ("rooting", "COMMAND: must be one of all, preview, growth, "),
        ("", "COMMAND: is required (one of all, preview, growth, "),
    ],
)
def test_a_wrong_command_line_is_one_line_of_one_form(monkeypatch, capsys, line, said) -> None:
    assert end_of(monkeypatch, *line.split()) == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert err.startswith(f"error: {said}")
    assert (len(err.splitlines()), out) == (1, "")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_refuses_an_unknown_option_in_one_line(monkeypatch, capsys, subject) -> None:
    assert end_of(monkeypatch, subject, "--no-such-option") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert err.startswith(f"error: --no-such-option: is not an option of bench {subject}; ")
    assert (len(err.splitlines()), out) == (1, "")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_refuses_an_argument_too_many_in_one_line(
    monkeypatch, capsys, subject
) -> None:
    assert end_of(monkeypatch, subject, "a", "b", "c") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert (len(err.splitlines()), out) == (1, "")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_help_cuts_no_word_at_80_columns_and_offers_no_flag_that_does_nothing(
    monkeypatch, subject
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(bench, [subject, "--help"]).stdout
    assert "…" not in said
    assert "--no-" not in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_folder_of_the_twin_below_a_file_is_refused(monkeypatch, capsys, tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(file / "twin"))
    assert end_of(monkeypatch, "plan") == ExitCode.ERROR
    assert "must be a folder" in capsys.readouterr().err
