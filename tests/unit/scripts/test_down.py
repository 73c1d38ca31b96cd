"""Which stacks `down --stack` destroys, and which it refuses."""

from typing import Any

import pytest

from scripts.operate import down as command
from scripts.operate.down import down
from scripts.shared import platform_state
from scripts.terminal.console import CheckFailedError, CommandError
from twin import daemon
from twin.host.paths import TwinPaths


class Engine:
    """A Pulumi CLI with stacks that are up, which notes what is destroyed."""

    def __init__(self, up: list[str], paths: TwinPaths) -> None:
        self.paths, self.up = paths, up
        self.destroyed: list[str] = []

    def stacks(self) -> list[str]:
        return [*self.up, "made-and-empty"]

    def deployment(self, stack: str) -> dict[str, Any]:
        return {"resources": [{"urn": "u"}]} if stack in self.up else {}

    def ensure_stack(self, stack: str) -> None:
        assert stack in self.up

    def wait_for_others(self, stack: str) -> None:
        assert stack in self.up

    def run(self, *arguments: str) -> Any:
        assert arguments[0] == "destroy"
        self.destroyed.append(arguments[-1])
        return type("Answer", (), {"returncode": 0})


@pytest.fixture
def twin(tmp_path, monkeypatch):
    """Give a function that brings stacks up on a twin, where `local` is the platform of two."""
    paths = TwinPaths(tmp_path / "twin")
    (paths.root / "pulumi-state").mkdir(parents=True)
    monkeypatch.setattr(TwinPaths, "default", lambda: paths)
    monkeypatch.setattr(daemon, "repair", lambda _: [])
    monkeypatch.setattr(
        command, "run_update", lambda engine, *arguments: engine.run(*arguments).returncode
    )
    teams = {"local": ["dev", "staging", "made-and-empty"]}
    monkeypatch.setattr(platform_state, "teams_of", lambda stack: teams.get(stack, []))

    def started(*up: str) -> Engine:
        engine = Engine(list(up), paths)
        monkeypatch.setattr(command, "Engine", lambda *_, **__: engine)
        return engine

    return started


def test_a_platform_whose_serving_stacks_are_up_is_refused_by_their_names(twin):
    engine = twin("local", "staging", "dev")
    with pytest.raises(CheckFailedError, match="got 'local'; take down dev, staging first"):
        down(stack="local")
    assert engine.destroyed == []


def test_one_stack_goes_and_the_others_stay(twin, capsys):
    engine = twin("local", "dev")
    down(stack="dev")
    assert engine.destroyed == ["dev"]
    assert "dev is destroyed." in capsys.readouterr().out


def test_a_platform_goes_after_its_serving_stacks(twin):
    engine = twin("local")
    down(stack="local")
    assert engine.destroyed == ["local"]


def test_a_stack_that_is_not_up_is_left_alone(twin, capsys):
    engine = twin("local")
    down(stack="prod")
    assert engine.destroyed == []
    assert "prod is not up: nothing to do." in capsys.readouterr().out


def test_a_stack_without_a_file_is_refused(twin):
    engine = twin("local")
    with pytest.raises(CommandError, match="--stack"):
        down(stack="nowhere")
    assert engine.destroyed == []


@pytest.mark.parametrize("given", [{"stack": "local"}, {"official": True}])
def test_what_destroys_no_stack_takes_no_stack_and_no_plugins(given):
    (name,) = given
    with pytest.raises(CommandError, match=f"--{name}: must not be given with --force"):
        down(force=True, **given)
