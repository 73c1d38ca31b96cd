"""The answer at the end of `up`, for models that generate nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.plan import Plan, resolve
from infra.reading.load import read
from infra.stack import Task
from scripts.operate.first_answer import first_answer
from scripts.operate.up import check_client
from scripts.terminal.console import CommandError
from tests.unit.accept.conftest import with_model
from tests.unit.accept.fake_platform import MODEL, Gateway


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.close()


def plan_of(task: Task) -> Plan:
    return resolve(with_model(read("local"), task=task, adapters=()))


@pytest.mark.parametrize(
    ("task", "answer"),
    [(Task.EMBED, "a vector of 2 numbers"), (Task.PREDICT, "values of probability")],
)
def test_a_vector_or_a_prediction_is_described(
    gateway: Gateway, tmp_path: Path, task: Task, answer: str
) -> None:
    url = f"http://127.0.0.1:{gateway.port}"
    found = first_answer(plan_of(task), MODEL, url, tmp_path, 1)
    assert found == [f"[bold]{MODEL}[/bold]: {answer}"]


def test_an_answer_of_another_kind_is_none(gateway: Gateway, tmp_path: Path) -> None:
    gateway.vector = [0.0]
    url = f"http://127.0.0.1:{gateway.port}"
    says = f"no answer within 0 s: {MODEL}: must answer with a vector of numbers, got a vector of 1"
    with pytest.raises(CommandError, match=f"^{says}"):
        first_answer(plan_of(Task.EMBED), MODEL, url, tmp_path, 0)


@pytest.mark.parametrize("task", [Task.EMBED, Task.PREDICT])
def test_a_scenario_needs_a_model_that_its_client_can_ask(task: Task) -> None:
    with pytest.raises(CommandError, match="--scenario: must be omitted for a stack without"):
        check_client(plan_of(task), MODEL)
