"""The gate of a canary: the last result of its evaluation, against the weights in the bucket."""

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.canary.gate import check_gate
from scripts.terminal.console import CommandError
from tests.unit.models import strict_storage
from twin.host.paths import REPOSITORY
from workloads.engine.weights_manifest import Current
from workloads.optimization.scores import Result, Score, Side, object_of
from workloads.transfer.store import Store

MODEL, NAME = "qwen3-4b", "qwen3-4b-w8a8"


@pytest.fixture(scope="module")
def plan():
    return resolve(read("optimization", REPOSITORY / "docs" / "examples" / "optimization"))


@pytest.fixture
def store(plan):
    bucket = plan.regions["us-central1"].storage.model_bucket
    with strict_storage.serving(strict_storage.Cloud(bucket)) as url:
        store = Store(None, endpoint=url)
        for folder, version in (("qwen3-4b", "aaa"), (NAME, "bbb")):
            current(store, bucket, folder, version, 0)
        yield store, bucket


def current(store, bucket, folder, version, generation):
    store.write(bucket, f"{folder}/_CURRENT.json", Current(version).dump(), generation=generation)


def put(where, candidate, time="2026-11-29T12:00:00Z", weights=f"{NAME}@bbb"):
    store, bucket = where
    score = Score("gsm8k", "exact_match,strict-match", candidate, 0.80, True, 0.01, 1319)
    sides = (Side(MODEL, "w8a8", weights), Side(MODEL, "stable", "qwen3-4b@aaa"))
    result = Result(NAME, time, *sides, (score,))
    store.write(bucket, object_of(NAME, time), result.dump(), generation=0)


def gate_of(plan, store):
    """Return the gate of the model, which has an evaluation."""
    gate = check_gate(plan, MODEL, store[0])
    assert gate is not None
    return gate


def test_a_canary_without_a_result_stays_closed_and_the_message_starts_one(plan, store):
    gate = gate_of(plan, store)
    assert gate.problem == (
        "has no result yet; run it: kubectl -n jobs-models create job "
        "--from=cronjob/evaluate-qwen3-4b-w8a8 NAME"
    )


def test_a_score_within_the_tolerance_opens_the_gate(plan, store):
    put(store, 0.78)
    gate = gate_of(plan, store)
    assert gate.problem == ""
    assert gate.lines == (
        "gsm8k exact_match,strict-match: 0.7800, stable 0.8000, standard error 0.0100, "
        "1319 questions: not worse",
    )


def test_a_score_below_the_tolerance_closes_it(plan, store):
    put(store, 0.77)
    gate = gate_of(plan, store)
    assert gate.problem == "lost 0.0300 in gsm8k, more than its tolerance 0.02"


def test_the_last_result_counts(plan, store):
    put(store, 0.10)
    put(store, 0.80, time="2026-11-29T13:00:00Z")
    assert gate_of(plan, store).problem == ""


def test_a_result_of_other_weights_does_not_count(plan, store):
    put(store, 0.80, weights=f"{NAME}@ccc")
    problem = gate_of(plan, store).problem
    assert problem.startswith(
        "is of w8a8 (qwen3-4b-w8a8@ccc) on 2026-11-29T12:00:00Z, "
        "and not of w8a8 (qwen3-4b-w8a8@bbb); run it:"
    )


def test_an_unreadable_result_is_an_error_with_its_object(plan, store):
    store[0].write(store[1], f"evaluations/{NAME}/1.json", "{}", generation=0)
    with pytest.raises(CommandError, match=f"gs://.*/evaluations/{NAME}/1.json: must be the"):
        gate_of(plan, store)


def test_a_canary_without_an_evaluation_has_no_gate(plan, store):
    assert check_gate(plan, "qwen3-1.7b", store[0]) is None
