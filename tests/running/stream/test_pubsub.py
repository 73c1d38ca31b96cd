"""The worker on Pub/Sub: what becomes of a message, whatever happens to pool and workers."""

import itertools
import json
import threading
import time
from pathlib import Path

import pytest

from tests.running.stream.world import (
    READ_LETTERS,
    READ_OUT,
    PubSub,
    until,
)

pytestmark = pytest.mark.needs_tools


def test_an_answer_has_the_id_of_its_message_and_the_request_its_trace(world: PubSub) -> None:
    world.work()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    number = world.put({"prompt": "a", "stream": True}, googclient_traceparent=parent)
    (answer,) = world.take(READ_OUT, 1)
    assert json.loads(answer.data) == {"said": "a"}
    assert answer.attributes == {
        "model": "llama",
        "result_id": f"summaries/{number}",
        "source_id": number,
        "stream": "summaries",
    }
    ((path, body, headers),) = world.model.asked
    assert (path, body) == ("/v1/completions", {"prompt": "a", "model": "llama"})
    assert headers["traceparent"] == parent
    assert headers["x-gateway-inference-objective"] == "llama-batch"
    assert headers["x-request-id"] == number
    until(lambda: world.backlog() == 0)


def test_poison_is_a_dead_letter_with_its_reason_and_the_rest_goes_on(world: PubSub) -> None:
    def answer(body, _):
        if body["prompt"] == "refused":
            error = {"error": {"code": "context_length_exceeded", "message": "refused"}}
            return 400, {}, json.dumps(error).encode()
        return (500, {}, b"{}") if body["prompt"] == "broken" else (200, {}, b"{}")

    world.model.answer = answer
    worker = world.work(attempts=3, max_bytes=1000)
    put = {
        world.put(b"no json"): ("not-json", "0", ""),
        world.put([1]): ("not-an-object", "0", "a JSON list"),
        world.put({"a": 1}): ("no-request", "0", "must have one of messages, prompt, input"),
        world.put({"prompt": "a", "model": "gpt"}): (
            "unknown-model",
            "0",
            "'gpt' is not of this stream",
        ),
        world.put({"prompt": "a" * 1000}): ("too-large", "0", "1014 bytes, at most 1000"),
        world.put({"prompt": "refused"}): ("http-400", "1", "context_length_exceeded"),
        world.put({"prompt": "broken"}, own="kept"): ("http-500", "3", ""),
    }
    fine = world.put({"prompt": "fine"})
    letters = world.take(READ_LETTERS, len(put))
    found = {
        each.attributes["original_id"]: (
            each.attributes["reason"],
            each.attributes["attempts"],
            each.attributes.get("detail", ""),
        )
        for each in letters
    }
    assert found == put
    assert [each.attributes.get("own") for each in letters].count("kept") == 1
    (answered,) = world.take(READ_OUT, 1)
    assert answered.attributes["source_id"] == fine
    until(lambda: world.backlog() == 0)
    assert worker.metric('gke_inference_stream_messages_total{outcome="dead"') == 7
    assert "refused" not in worker.log.read_text()


def test_a_busy_pool_costs_no_attempt_and_its_retry_after_is_waited_for(world: PubSub) -> None:
    times: list[float] = []

    def answer(_, number: int):
        times.append(time.monotonic())
        return (429, {"retry-after": "1"}, b"{}") if number <= 2 else (200, {}, b"{}")

    world.model.answer = answer
    world.work(attempts=1, longest_wait_seconds=60)
    world.put({"prompt": "a"})
    world.take(READ_OUT, 1)
    waits = [later - before for before, later in itertools.pairwise(times)]
    assert len(waits) == 2
    assert min(waits) >= 1.0


def test_an_engine_that_dies_in_the_middle_is_asked_again(world: PubSub) -> None:
    world.model.answer = lambda _, number: None if number == 1 else (200, {}, b"{}")
    worker = world.work(attempts=2)
    world.put({"prompt": "a"})
    world.take(READ_OUT, 1)
    assert worker.metric('gke_inference_stream_retries_total{status="connection-lost"') == 1


def test_refusals_shrink_what_is_under_way_and_answers_let_it_grow(world: PubSub) -> None:
    room = threading.Semaphore(3)

    def answer(_, number: int):
        del number
        if not room.acquire(blocking=False):
            return 429, {}, b"{}"
        time.sleep(0.02)
        room.release()
        return 200, {}, b"{}"

    world.model.answer = answer
    worker = world.work(max_in_flight=32, attempts=1)
    for number in range(200):
        world.put({"prompt": str(number)})
    world.take(READ_OUT, 200)
    assert 1 < world.model.most <= 12
    assert worker.metric('gke_inference_stream_messages_total{outcome="answered"') == 200


def test_nothing_is_asked_while_the_pool_has_a_queue(world: PubSub) -> None:
    world.model.queue = 5.0
    world.work(metrics_of_picker=f"{world.model.url}/metrics", queue_most=2.0)
    time.sleep(0.3)
    world.put({"prompt": "a"})
    time.sleep(1.5)
    assert world.model.asked == []
    world.model.queue = 1.0
    world.take(READ_OUT, 1)


def test_a_drain_finishes_what_has_begun_and_gives_back_the_rest(world: PubSub) -> None:
    until_told = threading.Event()

    def answer(body, _):
        until_told.wait(20)
        return 200, {}, json.dumps({"said": body["prompt"]}).encode()

    world.model.answer = answer
    first = world.work(max_in_flight=4)
    for number in range(4):
        world.put({"prompt": str(number)})
    until(lambda: len(world.model.asked) == 2)  # an adaptive limit begins with two
    time.sleep(0.5)
    first.terminate()
    until(lambda: sum(line.get("why") == "draining" for line in first.lines()) == 2)
    begun = world.model.prompts()
    until_told.set()
    assert first.process.wait(20) == 0
    answered = world.take(READ_OUT, 2)
    assert sorted(json.loads(each.data)["said"] for each in answered) == sorted(begun)
    assert world.backlog() == 2
    world.work()
    rest = world.take(READ_OUT, 2)
    said = {json.loads(each.data)["said"] for each in [*answered, *rest]}
    assert said == {"0", "1", "2", "3"}
    until(lambda: world.backlog() == 0)


def test_what_a_killed_worker_had_comes_again_after_its_lease(world: PubSub) -> None:
    hold = threading.Event()
    world.model.answer = lambda _, number: (
        (hold.wait(30) and None) or (200, {}, b"{}") if number == 1 else (200, {}, b"{}")
    )
    first = world.work()
    number = world.put({"prompt": "a"})
    until(lambda: len(world.model.asked) == 1)
    first.kill()
    world.work()
    (answer,) = world.take(READ_OUT, 1, 90)
    assert answer.attributes["source_id"] == number
    hold.set()


def test_a_lease_outlives_the_deadline_of_the_subscription(world: PubSub) -> None:
    def answer(_, number: int):
        del number
        time.sleep(13)
        return 200, {}, b"{}"

    world.model.answer = answer
    world.work()
    world.put({"prompt": "a"})
    world.take(READ_OUT, 1, 40)
    time.sleep(0.5)
    assert len(world.model.asked) == 1
    assert world.backlog() == 0


def test_messages_of_a_key_are_answered_in_their_order(tmp_path: Path) -> None:
    world = PubSub(tmp_path, enableMessageOrdering=True)
    try:
        world.model.answer = lambda body, _: (
            time.sleep(0.05 if body["prompt"].startswith("a") else 0),
            (200, {}, json.dumps({"said": body["prompt"]}).encode()),
        )[1]
        world.work(ordered=True, max_in_flight=8)
        for number in range(10):
            world.put({"prompt": f"a{number}"}, key="a")
            world.put({"prompt": f"b{number}"}, key="b")
        found = [json.loads(each.data)["said"] for each in world.take(READ_OUT, 20)]
        for key in "ab":
            mine = [word for word in found if word.startswith(key)]
            assert mine == [f"{key}{number}" for number in range(10)]
    finally:
        world.stop()


def test_a_subscription_that_is_gone_ends_the_worker_with_one_line(world: PubSub) -> None:
    name = "projects/acme/subscriptions/none"
    worker = world.work(source={"kind": "pubsub", "subscription": name})
    assert worker.process.wait(20) == 1
    last = worker.lines()[-1]
    assert last["message"].startswith(f"{name}: NotFound")
    assert last["severity"] == "ERROR"


def test_settings_that_cannot_be_used_end_the_worker_with_one_line(world: PubSub) -> None:
    with pytest.raises(AssertionError, match=r"results\.kind: must be one of bigquery, bucket"):
        world.work(results={"kind": "tape"})
    assert world.workers[-1].process.returncode == 2
