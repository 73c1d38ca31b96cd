"""Errors for stack files that cannot be read, and for a twin that does not run."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from typer.testing import CliRunner

from infra.reading.load import STACKS, EngineLoader, platform_of, read
from infra.stack.problems import StackError
from scripts.app import build_app
from scripts.check import preview
from scripts.operate import env, status, up
from scripts.operate.ask import endpoint_of
from scripts.shared import engine
from scripts.shared.engine import Engine, check_file
from scripts.terminal import options
from scripts.terminal.console import CommandError
from twin import daemon

BROKEN = "config:\n  gke-inference:platform: {models: [\n"


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stacks with one that is no YAML, which every command reads."""
    (tmp_path / "Pulumi.broken.yaml").write_text(BROKEN)
    monkeypatch.setattr(engine, "STACKS", tmp_path)
    monkeypatch.setattr(options, "stack_names", lambda: ["broken"])
    return tmp_path


def test_a_file_that_is_no_yaml_is_named(stacks: Path):
    with pytest.raises(CommandError, match=r"^Pulumi\.broken\.yaml is not YAML: .*line 3"):
        check_file("broken")


@pytest.mark.parametrize("command", [preview.preview, up.up])
def test_preview_and_up_name_the_file_before_anything_starts(
    stacks: Path, command: Any, monkeypatch: pytest.MonkeyPatch
):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("nothing must be started")

    monkeypatch.setattr(daemon, "ensure", never)
    with pytest.raises(CommandError, match=r"^Pulumi\.broken\.yaml is not YAML"):
        command(stack="broken")


def twice(tmp_path: Path) -> Path:
    """Write the stack `local` with a second `models:` in it."""
    text = (STACKS / "Pulumi.local.yaml").read_text()
    file = tmp_path / "Pulumi.twice.yaml"
    file.write_text(text.replace("    gateway:", "    models: {}\n    gateway:", 1))
    return file


def test_a_key_that_is_written_twice_is_refused_with_both_lines(tmp_path: Path):
    lines = [number for number, line in enumerate(twice(tmp_path).read_text().splitlines(), 1)
             if line.startswith("    models:")]  # fmt: skip
    words = rf"key 'models' is written twice, in lines {lines[0]} and {lines[1]}"
    with pytest.raises(StackError, match=rf"Pulumi\.twice\.yaml is not YAML: .*{words}"):
        platform_of(twice(tmp_path))


def test_a_mapping_that_others_build_upon_may_say_a_key_of_its_base_anew():
    text = "a: {b: &b {<<: {q: 1}, q: 2}}\nc: {<<: *b, y: 3}\n"
    read_as = yaml.load(text, Loader=EngineLoader)  # noqa: S506 - it derives from SafeLoader
    assert read_as == {"a": {"b": {"q": 2}}, "c": {"q": 2, "y": 3}}


def test_every_command_of_a_stack_reads_it_by_that_one_reader(tmp_path: Path):
    twice(tmp_path)
    with pytest.raises(StackError, match="is written twice"):
        read("twice", tmp_path)  # what cost, coldstart, preflight, images, plan and quota call


@pytest.fixture
def listener() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_an_address_that_nobody_listens_at_is_a_stack_that_is_not_up(tmp_path: Path, listener: str):
    folder = tmp_path / "local"
    folder.mkdir()
    words = "--stack: must be a stack that is up on the twin, got 'local'; run make up STACK=local"
    with pytest.raises(CommandError, match=words):
        endpoint_of("local", tmp_path)
    (folder / "endpoint").write_text(listener + "\n")
    assert endpoint_of("local", tmp_path) == listener
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    (folder / "endpoint").write_text(f"http://127.0.0.1:{port}\n")
    with pytest.raises(CommandError, match=words):
        endpoint_of("local", tmp_path)


def test_the_status_of_a_stack_without_a_file_is_one_message(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(CommandError, match=r"^--stack: must be one of .*got 'nosuch'"):
        status.status(stack="nosuch")


def test_what_the_engine_says_is_an_error_once(monkeypatch: pytest.MonkeyPatch):
    class Answer:
        returncode, stdout, stderr = 1, "", "error: no stack named 'x' found\n"

    monkeypatch.setattr(Engine, "__init__", lambda *_: None)
    monkeypatch.setattr(Engine, "run", lambda *_, **__: Answer())
    with pytest.raises(CommandError, match=r"^no stack named 'x' found$"):
        Engine(cast("Any", None)).query("stack", "output")


def test_env_says_that_it_starts_a_twin_and_says_it_where_no_shell_reads(
    monkeypatch: pytest.MonkeyPatch,
):
    class Fake:
        environment = {"PULUMI_HOME": "/tmp/here"}  # noqa: RUF012 - of a fake

        def __init__(self, *_: object, **__: object) -> None: ...

        def ensure_stack(self, _: str) -> None: ...

    monkeypatch.setattr(env, "Engine", Fake)
    monkeypatch.setattr(env.clusters, "folders", lambda _: [])
    monkeypatch.setattr(env.daemon, "ports", lambda _: None)
    answer = CliRunner().invoke(build_app(("env",)), ["env"])
    assert answer.exit_code == 0
    assert answer.stdout == "export PULUMI_HOME=/tmp/here\n"
    assert "The twin is not running: starting it" in answer.stderr
    monkeypatch.setattr(env.daemon, "ports", lambda _: {"gcp": 1})
    assert CliRunner().invoke(build_app(("env",)), ["env"]).stderr == ""


@pytest.mark.parametrize("number", ["010", "0x1F", "1_000", "1:30", "0b11"])
def test_a_number_that_is_not_decimal_is_refused_with_its_line(tmp_path: Path, number: str):
    file = tmp_path / "Pulumi.odd.yaml"
    file.write_text(f"config:\n  gke-inference:platform:\n    build: {number}\n")
    words = rf"line 3: must be a decimal number or text, got {number} \(put it in quotes\)"
    with pytest.raises(StackError, match=words):
        platform_of(file)


def test_dates_stay_text_and_decimal_numbers_numbers():
    text = "{date: 2026-01-02, time: '12:30', zero: 0, less: -5, many: 4096}"
    read_as = yaml.load(text, Loader=EngineLoader)  # noqa: S506 - it derives from SafeLoader
    assert read_as == {"date": "2026-01-02", "time": "12:30", "zero": 0, "less": -5, "many": 4096}
