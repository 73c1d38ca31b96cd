"""Runs of the CLI that execute a program attach to a language host of the command."""

import subprocess
from contextlib import contextmanager
from typing import Any

import pytest

from scripts.shared import engine as engine_module
from scripts.shared import program_hosts, pulumi_cli
from scripts.shared.engine import Engine
from scripts.shared.engine_progress import run_update
from twin.host.paths import TWIN_VARIABLE, TwinPaths

ATTACHED = "PULUMI_DEBUG_LANGUAGES"


class Hosts:
    """Hosts of which each takes the environment of its run."""

    def __init__(self) -> None:
        self.environments: list[dict[str, str]] = []
        self.open = 0

    @contextmanager
    def host(self, environment):
        self.environments.append(dict(environment))
        self.open += 1
        yield 4711
        self.open -= 1


@pytest.fixture
def runs(monkeypatch):
    """The environments of the processes that are started instead of the CLI."""
    started: list[dict[str, str]] = []

    def run(argv, *, env, **_options):
        started.append(env)
        return subprocess.CompletedProcess(argv, 0, "", "")

    def popen(argv, *, env, **_options):
        started.append(env)
        return subprocess.Popen(["true"])

    monkeypatch.setattr(
        pulumi_cli, "subprocess", type("Module", (), {"run": run, "Popen": popen, "STDOUT": -2})
    )
    return started


def engine_of(tmp_path, monkeypatch, hosts: Hosts | None, official: Any = None) -> Engine:
    monkeypatch.setattr(engine_module, "ensure_tools", lambda *_: None)
    monkeypatch.setattr(engine_module, "start_daemon", lambda *_: {})
    monkeypatch.setattr(engine_module, "pulumi_environment", lambda *_: {"PULUMI_HOME": "home"})
    given: Any = hosts
    return Engine(TwinPaths(tmp_path / "twin"), official=official, hosts=given)


@pytest.mark.parametrize("command", ["preview", "up"])
def test_a_run_of_a_program_attaches_to_a_host_with_its_environment(
    tmp_path, monkeypatch, runs, command
):
    hosts = Hosts()
    engine = engine_of(tmp_path, monkeypatch, hosts)
    engine.run(command, "-s", "local", environment={"WORD": "given"})
    assert runs[0][ATTACHED] == "python:4711"
    assert (hosts.environments[0]["WORD"], hosts.environments[0]["PULUMI_HOME"]) == (
        "given",
        "home",
    )
    assert hosts.open == 0


def test_an_update_whose_progress_is_shown_attaches_too(tmp_path, monkeypatch, runs):
    hosts = Hosts()
    assert run_update(engine_of(tmp_path, monkeypatch, hosts), "up", "-s", "local") == 0
    assert runs[0][ATTACHED] == "python:4711"
    assert hosts.open == 0


@pytest.mark.parametrize("command", ["destroy", "stack"])
def test_other_commands_have_no_host(tmp_path, monkeypatch, runs, command):
    hosts = Hosts()
    engine_of(tmp_path, monkeypatch, hosts).run(command, "-s", "local")
    assert ATTACHED not in runs[0]
    assert hosts.environments == []


def test_official_plugins_have_no_host(tmp_path, monkeypatch, runs):
    monkeypatch.setattr(program_hosts, "WarmHosts", lambda *_: pytest.fail("hosts were started"))
    engine_of(tmp_path, monkeypatch, None, object()).run("up", "-s", "local")
    assert ATTACHED not in runs[0]


def test_the_switch_of_the_patches_leaves_the_host_to_the_engine(tmp_path, monkeypatch, runs):
    hosts = Hosts()
    off = {"GKE_INFERENCE_NO_SPEEDUPS": "1"}
    engine_of(tmp_path, monkeypatch, hosts).run("preview", "-s", "local", environment=off)
    assert ATTACHED not in runs[0]
    assert hosts.environments == []


def test_hosts_are_started_for_the_first_program_and_kept_for_the_next(tmp_path, monkeypatch, runs):
    made: list[Hosts] = []

    def start(_paths, _official):
        made.append(Hosts())
        return made[-1]

    monkeypatch.setattr(engine_module, "program_hosts", start)
    engine = engine_of(tmp_path, monkeypatch, None)
    engine.run("stack", "ls")
    assert made == []
    engine.run("preview", "-s", "local")
    engine.run("up", "-s", "local")
    assert [len(each.environments) for each in made] == [2]


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The hosts that are started for the twin of an empty folder."""
    made: list[object] = []

    def start(*_):
        made.append(object())
        return made[-1]

    monkeypatch.setenv(TWIN_VARIABLE, str(tmp_path / "twin"))
    monkeypatch.setattr(program_hosts, "WarmHosts", start)
    return made


@pytest.mark.parametrize("command", ["preview", "render", "up"])
def test_hosts_load_while_the_command_does_and_are_its_first_ones(started, command):
    program_hosts.load_ahead([command, "--stack", "dev"])
    assert len(started) == 1
    paths = TwinPaths.default()
    assert [program_hosts.program_hosts(paths, None) for _ in range(2)] == started
    assert len(started) == 2


@pytest.mark.parametrize(
    "line", ["status", "up --help", "preview -h", "render --official", "preview --on=cloud"]
)
def test_no_host_loads_for_a_command_line_that_may_not_use_it(started, line):
    program_hosts.load_ahead(line.split())
    assert started == []


def test_that_no_host_can_load_is_left_to_the_command_to_say(started, tmp_path):
    (tmp_path / "twin").write_text("")
    program_hosts.load_ahead(["up"])
    assert started == []
