"""Input that `canary run` rejects before a change, and its output if it does not pass."""

import json
import os
import re
import signal
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from infra.plan import Plan, resolve
from infra.reading.load import STACKS, parse
from scripts.canary import command
from scripts.canary.command import run
from scripts.canary.steps import Outcome
from scripts.terminal.console import CommandError
from scripts.terminal.where import Where

MODEL = "llama-3.1-8b"
BACK = f"--stack engines --model {MODEL}"


@pytest.fixture
def plan() -> Plan:
    example = STACKS.parent / "docs" / "examples" / "engines" / "Pulumi.engines.yaml"
    whole = yaml.safe_load(example.read_text())
    return resolve(parse(json.dumps(whole["config"]["gke-inference:platform"])))


@pytest.fixture
def told(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(command, "_tell", lines.append)
    return lines


def test_a_step_in_google_cloud_is_long_enough_for_its_metrics_to_arrive():
    message = (
        "--hold: must be 5m or more with --on cloud, where metrics arrive minutes late, got '4m'"
    )
    with pytest.raises(CommandError, match=re.escape(message)):
        run("local", "any", hold="4m", patience="30m", on=Where.CLOUD)


def tried(run: Any, share: int | None, last: int | None) -> Any:
    return SimpleNamespace(run=run, share=share, tried=last)


def terminated() -> Outcome:
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("SIGTERM must end a run")


def refused() -> Outcome:
    raise CommandError("up of engines failed: quota")


@pytest.mark.parametrize(
    ("end", "error", "share", "last", "said"),
    [
        (terminated, KeyboardInterrupt, 25, 25, "The canary's share is 25%. "),
        (terminated, KeyboardInterrupt, None, None, "The canary's share is 10%. "),
        (refused, CommandError, 5, 25, "share is 5%, or 25% once that change is applied. "),
    ],
)
def test_a_run_that_ends_early_says_which_share_is_live_and_how_to_take_it_back(
    plan, told, end, error, share, last, said
):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(error):
        command._run(tried(end, share, last), plan, MODEL, BACK)
    assert said in told[-1]
    assert told[-1].endswith(f"gke-inference canary rollback {BACK}")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_run_that_passes_says_nothing_of_a_rollback(plan, told):
    assert command._run(tried(lambda: Outcome.PASSED, 100, 100), plan, MODEL, BACK)
    assert told == []


def test_a_canary_in_another_engine_is_promoted_with_its_engine_and_settings(plan):
    said = command._promotion(plan, MODEL, 100)
    assert said.startswith("write its engine, settings and weights into the model")
    assert command._promotion(plan, MODEL, 50).startswith("set percent to 100, then write")
