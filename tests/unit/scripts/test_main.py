"""The program's own help, and which subcommands a command line loads."""

import pytest
from typer.testing import CliRunner

from scripts.main import COMMANDS, app_for, build_app, list_app


def test_the_help_without_the_subcommands_is_the_help_with_them():
    said = [CliRunner().invoke(app, ["--help"]).stdout for app in (list_app(), build_app())]
    assert said[0] == said[1]
    assert all(f"│ {name} " in said[0] for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        ([], None),
        (["--help"], None),
        (["verdcit"], None),
        (["verdict", "--base", "up"], ["verdict"]),
        (["--", "verdict"], list(COMMANDS)),
        (["verdcit", "verdict"], list(COMMANDS)),
    ],
)
def test_only_what_a_command_line_can_run_is_loaded(monkeypatch, arguments, loaded):
    seen: list[str] = []

    class Module:
        def __getattr__(self, name):
            return lambda: None

    monkeypatch.setattr(
        "scripts.main.importlib.import_module", lambda name: seen.append(name) or Module()
    )
    app_for(arguments)
    assert seen == [f"scripts.{name}" for name in loaded or ()]


def test_a_wrong_name_is_answered_with_the_nearest():
    answer = CliRunner().invoke(app_for(["verdcit"]), ["verdcit"])
    assert answer.exit_code == 2
    assert "verdict" in answer.stderr
