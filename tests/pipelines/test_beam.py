"""The pipeline on Beam's DirectRunner: late events, duplicates, retries, totals, and Pub/Sub.

The unit tests of `tests/unit/pipelines` are the short form: events, features and requests without
Beam.
"""

import base64
import json
import runpy
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.running.programs import Program, until
from tests.running.stream.world import Model, PubSub
from twin.engines.pipelines import PIPELINES
from twin.host.paths import REPOSITORY
from twin.host.ports import free_ports, listens

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.needs_beam]

EXAMPLE = REPOSITORY / "docs" / "examples" / "predictive"
TOPICS, SUBSCRIPTIONS = "projects/acme-models/topics", "projects/acme-models/subscriptions"
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
GIVEN: dict[str, Any] = {
    "pipeline": "payments",
    "model": "fraud",
    "features": ["amount", "window_count", "window_sum"],
    "key": "card",
    "value": "amount",
    "group": "shop",
    "input": "features",
    "output": "probability",
    "threshold": 0.5,
    "window_seconds": 100,
    "lateness_seconds": 50,
    "totals_seconds": 60,
    "batch": 32,
    "retries": 1,
}


@pytest.fixture
def model() -> Iterator[Model]:
    """A model that scores an event by the number of earlier ones, and takes no amount of 666."""
    made = Model()

    def answer(body: dict[str, Any], _at: int) -> tuple[int, dict[str, str], bytes]:
        tensor = body["inputs"][0]
        rows = np.array(tensor["data"]).reshape(tensor["shape"])
        if 666.0 in rows[:, 0]:
            return 400, {}, b"not this one"
        if 503.0 in rows[:, 0]:
            return 503, {}, b"full"
        scores = [min(1.0, row[1] / 4) for row in rows]
        return 200, {}, json.dumps({"outputs": [{"name": "probability", "data": scores}]}).encode()

    made.answer = answer
    try:
        yield made
    finally:
        made.stop()


def payment(at: float, name: str, amount: float, card: str = "c", shop: str = "s") -> Any:
    body = {"id": name, "card": card, "shop": shop, "amount": amount}
    return {"at": at, "data": json.dumps(body)}


def play(model: Model, *steps: Any) -> dict[str, list[Any]]:
    """Return what the pipeline publishes for messages and watermarks, by output."""
    lines = "".join(json.dumps(step) + "\n" for step in steps)
    answer = subprocess.run(
        [
            str(PIPELINES.python()), "-m", "tests.pipelines.play",
            json.dumps({**GIVEN, "endpoint": model.url}),
        ],
        input=lines, capture_output=True, text=True, check=False, cwd=REPOSITORY,
        env=ENVIRONMENT, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-3000:]
    found: dict[str, list[Any]] = {"scores": [], "totals": [], "dead_letters": []}
    for line in answer.stdout.splitlines():
        made = json.loads(line)
        found[made["to"]].append((made["data"], made["attributes"]))
    return found


def test_each_event_is_scored_once_by_its_time_and_late_ones_are_counted(model: Model) -> None:
    found = play(
        model,
        payment(20, "b", 2.0),
        payment(10, "a", 1.0),  # out of order
        payment(20, "b", 2.0),  # a duplicate before its time has come
        payment(20, "b", 16.0, card="d"),  # another card has IDs of its own
        {"to": 30},
        {"to": 70},
        payment(15, "late", 4.0),
        payment(10, "a", 1.0),  # a duplicate of what has a score
        payment(90, "c", 8.0),
        {"to": 119},
        payment(119, "e", 32.0, shop="t"),
        {"to": 200},
        payment(5, "too-late", 1.0),
    )
    scores = [json.loads(data) for data, _ in found["scores"]]
    by_id = {(each["key"], each["id"]): each for each in scores}
    assert len(scores) == len(by_id) == 6
    assert {
        name: (each["window_count"], each["window_sum"], each["score"], each["flagged"])
        for name, each in by_id.items()
    } == {
        ("c", "a"): (0, 0, 0.0, False),
        ("c", "b"): (1, 1.0, 0.25, False),
        ("c", "late"): (1, 1.0, 0.25, False),  # a is before it; b, after it, keeps its score
        ("c", "c"): (3, 7.0, 0.75, True),
        ("c", "e"): (2, 10.0, 0.5, True),  # a and the late one are outside its window by now
        ("d", "b"): (0, 0, 0.0, False),
    }
    assert by_id["c", "late"]["time"] == "1970-01-01T00:00:15Z"
    assert {attributes["result_id"] for _, attributes in found["scores"]} == {
        f"payments/{key}/{name}" for key, name in by_id
    }
    totals = {
        (each["group"], each["start"][-9:-1], each["revision"]): (
            each["events"], each["flagged"], each["sum"], each["late"],
        )
        for each in (json.loads(data) for data, _ in found["totals"])
    }  # fmt: skip
    assert totals == {
        ("s", "00:00:00", 0): (3, 0, 19.0, False),
        ("s", "00:00:00", 1): (4, 0, 23.0, True),  # with the late one
        ("s", "00:01:00", 0): (1, 1, 8.0, False),
        ("t", "00:01:00", 0): (1, 1, 32.0, False),
    }
    ((data, attributes),) = found["dead_letters"]
    assert json.loads(data)["id"] == "too-late"
    assert (attributes["reason"], attributes["detail"]) == ("too-late", "114 s behind its key")


def test_what_has_no_score_is_a_dead_letter_with_its_reason(model: Model) -> None:
    found = play(
        model,
        {"at": 1, "data": "{"},
        payment(1, "refused", 666.0),
        payment(1, "busy", 503.0),
        payment(1, "fine", 1.0, card="d"),
        {"to": 2},
    )
    assert [json.loads(data)["id"] for data, _ in found["scores"]] == ["fine"]
    letters = {
        attributes["reason"]: (data, attributes) for data, attributes in found["dead_letters"]
    }
    assert letters["not-json"] == ("{", {"source": "test", "reason": "not-json"})
    assert letters["http-400"][1]["detail"] == "not this one"
    assert json.loads(letters["http-400"][0])["id"] == "refused"
    assert "HTTP 503: full" in letters["no-answer"][1]["detail"]
    asked = [body["inputs"][0]["data"][0] for _, body, _ in model.asked]
    assert asked.count(503.0) == 2  # once more, after a wait


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[str]:
    """The classifier of the example, behind Triton's protocol."""
    port, metrics = free_ports(2)
    folder = EXAMPLE / "weights" / "models"
    server = Program(
        tmp_path / "triton.log",
        [
            str(REPOSITORY / ".venv/bin/python"), "-m", "simulator.dialects", "tritonserver",
            f"--model-repository={folder}", f"--http-port={port}", f"--metrics-port={metrics}",
        ],
        {},
    )  # fmt: skip
    try:
        until(lambda: listens(port) or server.process.poll() is not None, 90)
        assert server.process.poll() is None, server.log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()


def test_payments_of_a_topic_get_the_probabilities_of_the_model(
    tmp_path: Path, triton: str
) -> None:
    exact = runpy.run_path(str(EXAMPLE / "make_model.py"))
    world = PubSub(tmp_path)
    for name in ("events", "scores", "totals", "letters"):
        world.call("PUT", f"{TOPICS}/{name}", {})
        world.call("PUT", f"{SUBSCRIPTIONS}/{name}", {"topic": f"{TOPICS}/{name}"})

    def put(body: Any, **attributes: str) -> None:
        data = base64.b64encode(json.dumps(body).encode()).decode()
        messages = [{"data": data, "attributes": attributes}]
        world.call("POST", f"{TOPICS}/events:publish", {"messages": messages})

    settings = {
        **GIVEN,
        "endpoint": triton,
        "features": [
            "amount_usd", "hour", "window_count", "account_days", "is_abroad", "is_new_device",
        ],
        "value": "amount_usd",
        "subscription": f"{SUBSCRIPTIONS}/events",
        "scores": f"{TOPICS}/scores",
        "totals": f"{TOPICS}/totals",
        "dead_letters": f"{TOPICS}/letters",
        "window_seconds": 86_400,
        "lateness_seconds": 3_600,  # the DirectRunner's watermark is the time of this machine
        "totals_seconds": 5,
    }  # fmt: skip
    argv = [
        str(PIPELINES.python()), "-m", "workloads.pipelines", "--runner=DirectRunner",
        f"--settings={json.dumps(settings)}",
    ]  # fmt: skip
    rows: list[list[float]] = []
    start = int(1000 * time.time()) - 10_000
    for at in range(6):
        row = [20.0 + 40 * at, float(at), float(at), 400.0, float(at % 2), False]
        body = {
            "id": f"p{at}", "card": "c", "shop": "s", "amount_usd": row[0], "hour": at,
            "account_days": 400, "is_abroad": bool(at % 2), "is_new_device": False,
        }  # fmt: skip
        for _ in range(2 if at == 2 else 1):  # one is published twice
            put(body, time=str(start + 1000 * at))  # milliseconds
        rows.append(row)
    put("junk")
    program = Program(tmp_path / "pipeline.log", argv, {**ENVIRONMENT, **world.environment})
    try:
        scores = [json.loads(each.data) for each in world.take(f"{SUBSCRIPTIONS}/scores", 6, 120)]
        (letter,) = world.take(f"{SUBSCRIPTIONS}/letters", 1, 120)
        found = world.take(f"{SUBSCRIPTIONS}/totals", 1, 180)
    finally:
        program.kill()
        world.stop()
    assert letter.attributes["reason"] == "not-an-object"
    scores.sort(key=lambda each: each["id"])
    assert [each["id"] for each in scores] == [f"p{at}" for at in range(6)]
    assert [each["window_count"] for each in scores] == list(range(6))
    expected = exact["probabilities"](exact["trained"](), np.array(rows, np.float32))
    got = np.array([each["score"] for each in scores])
    assert np.allclose(got, np.ravel(expected), atol=1e-5)
    assert json.loads(found[-1].data)["group"] == "s"
