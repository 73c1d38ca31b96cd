"""Mistakes of new users result in one line before anything is started or printed."""

import json
from pathlib import Path

import pytest

from infra.reading.load import read, stack_names
from infra.stack.problems import StackError
from scripts.images import command as images
from scripts.operate import ask, logs, up
from scripts.plan import coldstart, plan
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output
from twin.cluster.agent.launching import real_engine


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    monkeypatch.setattr(up, "Engine", lambda *_: pytest.fail("the engine was started"))
    monkeypatch.setattr(plan, "ranked", lambda *_: pytest.fail("it planned"))
    monkeypatch.setattr(real_engine, "ask_for", lambda *_: pytest.fail("an engine was asked for"))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda: up.up("local", real_engine="nope"),
            "--real-engine: must be one of .*, got 'nope'",
        ),
        (lambda: up.up("local", speed=0), "--speed: must be a number above 0, got 0"),
        (
            lambda: logs.logs(status="abc"),
            "--status: must be a status code such as 503 or 5xx, got 'abc'",
        ),
        (logs.logs, "the twin has no cluster, so no gateway; start it with make up"),
        (
            lambda: ask.ask("a cat", image=True, size="big"),
            "--size: must be auto or a size such as 1024x1024",
        ),
        (
            lambda: coldstart.coldstart(doubling=float("inf")),
            "--doubling: must be a number above 0",
        ),
        (lambda: images.build("prod", revision=""), "--revision: must be a"),
        (
            lambda: plan.plan("llama-3.1-8b", parameters=8),
            "--parameters: must be omitted unless MODEL",
        ),
        (lambda: plan.plan("llama-3.1-8b", parameters=-1), "--parameters: must be a number above"),
        (
            lambda: plan.plan("llama-3.1-8b", write="prd"),
            "--write: must be one of .*, got 'prd'; did",
        ),
        (
            lambda: plan.plan("/none/config.json"),
            r"/none/config\.json: cannot be read: no such file",
        ),
        (
            lambda: plan.plan(against=Path("/none.csv")),
            r"--against: must be a readable file, got '/none\.csv': no such",
        ),
        (
            lambda: plan.plan("llama-3.1-8b", measured=[Path("/none.json")]),
            r"--measured: must be a readable file, got '/none\.json': no such",
        ),
    ],
)
def test_it_is_one_line(run, message) -> None:
    with pytest.raises(CommandError, match=f"^{message}") as error:
        run()
    assert "\n" not in str(error.value)
    assert "Errno" not in str(error.value)


def test_a_stack_file_that_is_a_folder_is_one_line(tmp_path) -> None:
    (tmp_path / "Pulumi.dir.yaml").mkdir()
    with pytest.raises(StackError, match=r"^Pulumi\.dir\.yaml cannot be read: is a directory$"):
        read("dir", tmp_path)


def test_a_link_to_nowhere_is_no_stack(tmp_path) -> None:
    (tmp_path / "Pulumi.gone.yaml").symlink_to("/nowhere")
    (tmp_path / "Pulumi.here.yaml").write_text("")
    assert stack_names(tmp_path) == ["here"]
    with pytest.raises(StackError, match=r"^stack must be one of here, got 'gone'$"):
        read("gone", tmp_path)


def test_the_published_times_are_json_too(capsys) -> None:
    coldstart.coldstart(is_checked=True, output=Output.JSON)
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert {"what", "published", "calculated", "error"} <= set(rows[0])
