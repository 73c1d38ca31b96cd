"""The program's help, which commands a command line loads, and how errors of the machine end."""

import errno
import gc
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from scripts import main
from scripts.app import (
    COMMANDS,
    GROUPS,
    PURPOSES,
    app_for,
    build_app,
    command_of,
    list_app,
    module_of,
)
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.where import VARIABLE, Where
from twin.host.paths import REPOSITORY


def test_the_help_without_the_commands_is_the_help_with_them():
    texts = [CliRunner().invoke(app, ["--help"]).stdout for app in (list_app(), build_app())]
    assert texts[0] == texts[1]
    assert all(f"│ {name} " in texts[0] for name in COMMANDS)


def test_the_help_groups_commands_by_purpose_in_one_order():
    text = CliRunner().invoke(list_app(), ["--help"]).stdout
    titles = [line.strip("╭─╮ ").split(":")[0] for line in text.splitlines() if "╭─" in line]
    assert titles == ["Options", *GROUPS]
    assert GROUPS.keys() == PURPOSES.keys()


def helps(command):
    yield command.help or ""
    for subcommand in getattr(command, "commands", {}).values():
        yield from helps(subcommand)


def flags(command):
    yield from (one for one in command.params if getattr(one, "is_flag", False))
    for subcommand in getattr(command, "commands", {}).values():
        yield from flags(subcommand)


def test_help_shows_no_type_for_flags_which_take_no_value():
    assert {one.metavar for one in flags(command_of(build_app()))} == {""}


@pytest.mark.parametrize(
    ("line", "word", "completions"),
    [
        ("gke-inference cold", 1, ["coldstart"]),
        ("gke-inference cost --mean", 2, ["--mean-share"]),
        ("gke-inference cost --stack p", 3, ["prod"]),
        ("gke-inference clients keys ro", 3, ["rotate"]),
    ],
)
def test_a_shell_completes_commands_options_and_stacks(
    line, word, completions, monkeypatch, capsys
):
    monkeypatch.setenv("_GKE_INFERENCE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(word))
    assert main._run([]) == ExitCode.OK
    assert capsys.readouterr().out.split() == completions


@pytest.mark.parametrize("collects", [True, False])
def test_a_command_leaves_the_collection_of_garbage_as_it_was(collects, capsys):
    before = gc.isenabled()
    gc.freeze()  # to look through what other tests left takes seconds
    try:
        (gc.enable if collects else gc.disable)()
        assert main._run(["images", "--help"]) == ExitCode.OK
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


def test_a_paragraph_of_help_is_one_line_that_the_terminal_wraps():
    texts = list(helps(get_command(build_app())))
    assert len(texts) > len(COMMANDS)
    assert [text for text in texts if "\n" in text.replace("\n\n", "")] == []


def places(command, path=()):
    """Yield the path, the variable and the default of each option `--on`."""
    for parameter in command.params:
        if "--on" in parameter.opts:
            yield " ".join(path), parameter.envvar, parameter.default
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from places(subcommand, (*path, name))


def test_each_command_with_a_twin_and_a_cloud_uses_the_twin_unless_told_otherwise():
    found = {path: rest for path, *rest in places(get_command(build_app()))}
    # without `--on`, preflight reads no project
    assert found.pop("preflight") == [None, None]
    assert {"status", "bootstrap", "accept", "images prepare", "models push"} <= set(found)
    assert {tuple(each) for each in found.values()} == {(VARIABLE, Where.TWIN)}


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        ([], None),
        (["--help"], None),
        (["verdcit"], None),
        (["verdict", "--base", "up"], ["verdict"]),
        (["images", "pin"], ["images"]),
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
        "scripts.app.importlib.import_module", lambda name: seen.append(name) or Module()
    )
    app_for(arguments)
    assert seen == [f"scripts.{module_of(name)}" for name in loaded or ()]


def test_the_program_says_its_version():
    answer = CliRunner().invoke(app_for(["--version"]), ["--version"])
    assert (answer.exit_code, answer.stdout) == (0, f"gke-inference {version('gke-inference')}\n")


def test_a_wrong_name_is_answered_with_the_nearest():
    answer = CliRunner().invoke(app_for(["verdcit"]), ["verdcit"])
    assert answer.exit_code == 2
    assert "verdict" in answer.stderr


@pytest.mark.needs_tools  # a process that loads a command
def test_a_full_disk_under_the_output_is_one_line():
    argv = [sys.executable, "-m", "scripts.main", "coldstart"]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            argv, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == ExitCode.ERROR
    assert answer.stderr == "error: standard output: No space left on device\n"


@pytest.mark.needs_tools  # the same
def test_a_reader_that_ends_first_is_no_error():
    command = (
        f"{sys.executable} -m scripts.main coldstart -o json | head -c 1; exit ${{PIPESTATUS[0]}}"
    )
    answer = subprocess.run(
        ["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) in {(ExitCode.BROKEN_PIPE, ""), (ExitCode.OK, "")}


def test_a_folder_that_is_not_writable_is_named(monkeypatch, capsys):
    def refused(_):
        raise PermissionError(errno.EACCES, "Permission denied", "build/local")

    monkeypatch.setattr("scripts.main._run", refused)
    monkeypatch.setattr("scripts.main.os.dup2", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: build/local: Permission denied\n"


def test_a_folder_of_the_twin_below_a_file_is_refused_by_every_command(
    monkeypatch, capsys, tmp_path
):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(file / "twin"))
    monkeypatch.setattr("sys.argv", ["gke-inference", "status"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == ExitCode.ERROR
    rule = f"must be a folder, got '{file}/twin': {file} is a file"
    assert capsys.readouterr().err.split() == f"error: GKE_INFERENCE_TWIN_DIR: {rule}".split()


def refused_with(error, monkeypatch, capsys):
    """Return what a command prints that ends with an error."""

    def run(_):
        raise error

    monkeypatch.setattr("scripts.main._run", run)
    monkeypatch.setattr("scripts.main.os.dup2", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == ExitCode.ERROR
    return capsys.readouterr().err


def test_a_full_disk_is_named_by_the_folder_that_was_written(monkeypatch, capsys):
    full = OSError(
        errno.ENOSPC, "No space left on device", "/cache/pulumi", None, "/twin/bin/pulumi"
    )
    shown = refused_with(full, monkeypatch, capsys)
    assert shown == "error: /twin/bin: No space left on device\n"


@pytest.mark.parametrize(("free", "place"), [(0, "the twin's folder"), (1, "standard output")])
def test_a_full_disk_without_a_file_is_that_of_the_twin_or_of_the_output(
    monkeypatch, capsys, tmp_path, free, place
):
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr("scripts.main.shutil.disk_usage", lambda _: usage)
    full = OSError(errno.ENOSPC, "No space left on device")
    named = str(tmp_path) if place != "standard output" else place
    shown = " ".join(refused_with(full, monkeypatch, capsys).split())
    assert shown == f"error: {named}: No space left on device"
