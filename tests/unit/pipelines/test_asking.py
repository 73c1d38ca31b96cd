"""Requests of a pipeline to a predictive model: what is a score, a refusal, or nothing for now."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.running.stream.world import Model
from tests.unit.pipelines.given import GIVEN
from workloads.pipelines.asking import Asking, BusyError, RefusedError
from workloads.pipelines.settings import Settings

ROWS = [[1.0, 2.0], [3.0, 4.0]]


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    try:
        yield made
    finally:
        made.stop()


def settings(model: Model) -> Settings:
    own = {"endpoint": model.url + "/", "features": ["a", "window_sum"], "timeout_seconds": 2.0}
    return Settings.of(json.dumps({**GIVEN, **own}))


def outputs(*scores: Any) -> bytes:
    return json.dumps({"outputs": [{"name": "probability", "data": scores}]}).encode()


def test_a_batch_is_one_tensor_and_has_a_score_for_each_row(model: Model) -> None:
    model.answer = lambda _body, _at: (200, {}, outputs(0.25, 0.75))
    assert Asking(settings(model), lambda: "key-1").score(ROWS) == [0.25, 0.75]
    ((path, body, headers),) = model.asked
    assert (path, headers["authorization"]) == ("/v2/models/fraud/infer", "Bearer key-1")
    tensor = {"name": "features", "datatype": "FP32", "shape": [2, 2], "data": [1.0, 2.0, 3.0, 4.0]}
    assert body == {"inputs": [tensor], "outputs": [{"name": "probability"}]}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_busy_pool_has_no_answer_for_now(model: Model, status: int) -> None:
    model.answer = lambda _body, _at: (status, {}, b"later")
    with pytest.raises(BusyError, match=f"HTTP {status}: later"):
        Asking(settings(model), None).score(ROWS)


def test_a_lost_connection_has_no_answer_for_now(model: Model) -> None:
    model.answer = lambda _body, _at: None
    with pytest.raises(BusyError, match="ConnectionError"):
        Asking(settings(model), None).score(ROWS)


def test_a_rejected_key_is_read_again_before_the_next_attempt(model: Model) -> None:
    keys = iter(["old", "new"])
    model.answer = lambda _body, at: (401, {}, b"") if at == 1 else (200, {}, outputs(0, 1))
    asking = Asking(settings(model), lambda: next(keys))
    with pytest.raises(BusyError):
        asking.score(ROWS)
    assert asking.score(ROWS) == [0.0, 1.0]
    assert [headers["authorization"] for _, _, headers in model.asked] == [
        "Bearer old",
        "Bearer new",
    ]


@pytest.mark.parametrize(
    ("status", "body", "reason", "detail"),
    [
        (400, b'{"error":"shape"}', "http-400", '{"error":"shape"}'),
        (404, b"", "http-404", ""),
        (200, b"{}", "bad-answer", "no tensor probability"),
        (200, outputs(1), "bad-answer", "1 scores for 2 events"),
        (200, outputs(1, float("nan")), "bad-answer", "a score that is no number"),
    ],
)
def test_what_no_attempt_changes_is_refused(
    model: Model, status: int, body: bytes, reason: str, detail: str
) -> None:
    model.answer = lambda _body, _at: (status, {}, body)
    with pytest.raises(RefusedError) as raised:
        Asking(settings(model), None).score(ROWS)
    assert (raised.value.reason, raised.value.detail) == (reason, detail)
