"""The program's own help, and which subcommands a command line loads."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts import main
from scripts.main import COMMANDS, app_for, build_app, list_app
from twin.host.paths import REPOSITORY


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
    folders = {"bootstrap": "bootstrap.command"}
    assert seen == [f"scripts.{folders.get(name, name)}" for name in loaded or ()]


def test_a_wrong_name_is_answered_with_the_nearest():
    answer = CliRunner().invoke(app_for(["verdcit"]), ["verdcit"])
    assert answer.exit_code == 2
    assert "verdict" in answer.stderr


def test_an_output_without_room_is_one_line():
    argv = [sys.executable, "-m", "scripts.main", "coldstart"]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            argv, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == 2
    assert answer.stderr == "error: the output: No space left on device\n"


def test_a_folder_that_may_not_be_written_is_named(monkeypatch, capsys):
    def refused(_):
        raise PermissionError(errno.EACCES, "Permission denied", "build/local")

    monkeypatch.setattr("scripts.main._run", refused)
    monkeypatch.setattr("scripts.main.os.dup2", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: build/local: Permission denied\n"
