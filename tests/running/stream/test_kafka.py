"""The worker on Kafka: each message is answered, whichever worker dies, and none is skipped."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.running.programs import until
from tests.running.stream.world import World
from twin.host.ports import free_port

pytestmark = pytest.mark.needs_tools


class Kafka(World):
    """With a topic, and topics for answers and dead letters."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.brokers = f"127.0.0.1:{free_port()}"
        self.start("kafka", "--address", self.brokers, "--topics", "in,out,letters")
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.brokers})
        until(lambda: self.producer.list_topics(timeout=5).topics)
        self.settings |= {
            "source": {
                "kind": "kafka",
                "brokers": [self.brokers],
                "topic": "in",
                "group": "summaries",
                "session_timeout_ms": 6000,
            },
            "results": {"kind": "topic", "topic": "out"},
            "dead_letters": "letters",
        }

    def put(self, body: Any, key: str = "") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.producer.produce("in", data, key=key.encode() or None)
        self.producer.flush(10)

    def take(self, topic: str, count: int, seconds: float = 40) -> list[Any]:
        """Return at least so many messages of a topic, from its beginning."""
        settings = {
            "bootstrap.servers": self.brokers,
            "group.id": f"test-{topic}-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([topic])
        found: list[Any] = []
        end = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < end:
            each = consumer.poll(0.2)
            if each is not None and each.error() is None:
                found.append(each)
        consumer.close()
        assert len(found) >= count, f"{len(found)} of {count} within {seconds} s"
        return found


@pytest.fixture(name="kafka")
def a_cluster(tmp_path: Path) -> Iterator[Kafka]:
    made = Kafka(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def headers(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}


def test_answers_and_dead_letters_are_messages_of_their_topics(kafka: Kafka) -> None:
    kafka.put({"prompt": "a"}, key="k")
    kafka.put(b"no json")
    worker = kafka.work()
    (answer,) = kafka.take("out", 1)
    assert json.loads(answer.value()) == {"said": "a"}
    assert headers(answer)["result_id"].startswith("summaries/in-")
    assert answer.key() == b"k"
    (letter,) = kafka.take("letters", 1)
    assert (letter.value(), headers(letter)["reason"]) == (b"no json", "not-json")
    worker.terminate()
    assert worker.process.wait(20) == 0


def test_what_a_killed_worker_had_is_answered_by_the_next(kafka: Kafka) -> None:
    def answer(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.05)
        return 200, {}, json.dumps({"said": body["prompt"]}).encode()

    kafka.model.answer = answer
    for number in range(60):
        kafka.put({"prompt": str(number)})
    first = kafka.work(max_in_flight=4)
    until(lambda: len(kafka.model.asked) >= 10)
    first.kill()
    kafka.work(max_in_flight=4)
    until(lambda: len(set(kafka.model.prompts())) == 60, 50)
    time.sleep(1)
    answers = kafka.take("out", 60)
    by_id = {headers(each)["result_id"]: json.loads(each.value())["said"] for each in answers}
    assert sorted(by_id.values(), key=int) == [str(number) for number in range(60)]


def test_messages_of_a_key_keep_their_order_over_failures(kafka: Kafka) -> None:
    kafka.model.answer = lambda body, number: (
        (503, {}, b"{}")
        if number % 3 == 1
        else (200, {}, json.dumps({"said": body["prompt"]}).encode())
    )
    for number in range(12):
        kafka.put({"prompt": str(number)}, key="k")
    kafka.work(ordered=True)
    found = [json.loads(each.value())["said"] for each in kafka.take("out", 12)]
    assert found == [str(number) for number in range(12)]
