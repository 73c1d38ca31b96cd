"""A Kafka topic as the source, and topics for answers and dead letters.

The ID of a message is its position: `TOPIC-PARTITION-OFFSET`. Only offsets before every unfinished
message are committed, so a worker that crashes loses no message.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from .messages import Message
from .source import Delivery, SourceError, TooLarge

_POLL_SECONDS: Final = 0.2
_PUBLISH_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 5.0
"""Delay before a message that was given back is delivered again."""
_LARGEST_BYTES: Final = 16 * 2**20
"""Client-side limit, high enough that the broker's own limit decides."""
_TOO_LARGE: Final = (
    confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE,
    confluent_kafka.KafkaError.RECORD_LIST_TOO_LARGE,
)
_LAG_EVERY: Final = 25
"""Polls between two looks at the backlog."""


def client_settings(source: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a client: brokers, and what the folder of its secret has.

    Each file of the folder is a setting of librdkafka, such as `sasl.password`, named after it.
    """
    found: dict[str, Any] = {"bootstrap.servers": ",".join(source["brokers"])}
    folder = source.get("settings_folder")
    if folder:
        files = sorted(file for file in Path(folder).iterdir() if file.is_file())
        found |= {file.name: file.read_text().strip() for file in files}
    return found


class Offsets:
    """Progress of each partition; an offset is committed when all before it are done."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], dict[int, bool]] = {}
        self._lock = threading.Lock()

    def add(self, topic: str, partition: int, offset: int) -> None:
        """Register a message whose processing has started."""
        with self._lock:
            self._open.setdefault((topic, partition), {})[offset] = False

    def done(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the offset to commit now that a message is done, or None."""
        with self._lock:
            known = self._open.get((topic, partition))
            if known is None or offset not in known:
                return None  # the partition is another worker's by now
            known[offset] = True
            found: int | None = None
            for each in sorted(known):
                if not known[each]:
                    break
                del known[each]
                found = each + 1
            return found

    def forget(self, topic: str, partition: int) -> None:
        """Release a partition."""
        with self._lock:
            self._open.pop((topic, partition), None)

    def waiting(self) -> int:
        """Return the number of messages in progress."""
        with self._lock:
            return sum(not done for known in self._open.values() for done in known.values())


class KafkaSource:
    """A consumer of a group.

    A message that is given back is delivered again by the worker itself: Kafka has no such thing,
    and a partition does not go past it.

    Args:
        source: `brokers`, `topic` and `group`.
        most: Messages to hold at once.
        lag: Takes how many messages of the worker's partitions are not done.
    """

    def __init__(self, source: dict[str, Any], most: int, lag: Callable[[int], None]) -> None:
        self._topic = str(source["topic"])
        self._most = most
        self._lag = lag
        settings = {
            **client_settings(source),
            "group.id": source["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": source.get("session_timeout_ms", 45_000),
        }
        self._consumer = confluent_kafka.Consumer(settings)
        self._offsets = Offsets()
        self._commits: queue.SimpleQueue[confluent_kafka.TopicPartition] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._problem = ""
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None

    def start(self, receive: Callable[[Delivery], None]) -> None:
        """Start consuming."""
        self._thread = threading.Thread(target=self._consume, args=(receive,), daemon=True)
        self._thread.start()

    async def ended(self) -> None:
        """Wait until the consumer ends by itself.

        Raises:
            SourceError: Why.
        """
        await self._over.wait()
        if self._problem:
            raise SourceError(f"{self._topic}: {self._problem}")

    async def stop(self) -> None:
        """Stop receiving."""
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def close(self) -> None:
        """Commit finished messages and leave the group; the rest goes to another worker."""
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        with contextlib.suppress(confluent_kafka.KafkaException):  # the group may be another by now
            self._commit(asynchronous=False)
        self._consumer.close()

    def _commit(self, *, asynchronous: bool) -> None:
        """Commit what is done, from the thread that polls: another one would wait for it."""
        newest: dict[tuple[str, int], confluent_kafka.TopicPartition] = {}
        while not self._commits.empty():
            place = self._commits.get_nowait()
            newest[place.topic, place.partition] = place
        if newest:
            self._consumer.commit(offsets=list(newest.values()), asynchronous=asynchronous)

    def _consume(self, receive: Callable[[Delivery], None]) -> None:
        """Deliver until the end; an error ends the worker, and another one takes over."""
        try:
            self._deliver(receive)
        except Exception as error:  # noqa: BLE001 - a thread that is gone looks like one that waits
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            self._loop.call_soon_threadsafe(self._over.set)

    def _deliver(self, receive: Callable[[Delivery], None]) -> None:
        def lost(_: Any, partitions: list[confluent_kafka.TopicPartition]) -> None:
            for each in partitions:
                self._offsets.forget(each.topic, each.partition)

        self._consumer.subscribe([self._topic], on_revoke=lost, on_lost=lost)
        is_paused, polls = False, 0
        while not self._stopping.is_set():
            is_full = self._offsets.waiting() >= self._most
            if is_full != is_paused:
                held = self._consumer.assignment()
                (self._consumer.pause if is_full else self._consumer.resume)(held)
                is_paused = is_full
            polls += 1
            if polls % _LAG_EVERY == 0:
                self._measure()
            self._commit(asynchronous=True)
            found = self._consumer.poll(_POLL_SECONDS)
            if found is None:
                continue
            error = found.error()
            if error is None:
                receive(self._delivery(found, receive))
            elif error.fatal() or not error.retriable():
                self._problem = error.name()
                break

    def _delivery(self, found: Any, receive: Callable[[Delivery], None]) -> Delivery:
        topic, partition, offset = found.topic(), found.partition(), found.offset()
        self._offsets.add(topic, partition, offset)
        message = message_of(found)

        def done() -> None:
            commit = self._offsets.done(topic, partition, offset)
            if commit is not None:
                self._commits.put(confluent_kafka.TopicPartition(topic, partition, commit))

        def again() -> None:
            if not self._stopping.is_set():
                receive(Delivery(message, done, give_back))

        def give_back() -> None:
            self._loop.call_soon_threadsafe(self._loop.call_later, _AGAIN_SECONDS, again)

        return Delivery(message, done, give_back)

    def _measure(self) -> None:
        waiting = 0
        for place in self._consumer.position(self._consumer.assignment()):
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
            if place.offset >= 0:
                waiting += max(0, high - place.offset)
        self._lag(waiting + self._offsets.waiting())


class KafkaTopic:
    """Publishes to a topic, in order within a key."""

    def __init__(self, source: dict[str, Any], topic: str) -> None:
        self._topic = topic
        settings = {
            **client_settings(source),
            "acks": "all",
            "delivery.timeout.ms": int(1000 * _PUBLISH_SECONDS),
            "enable.idempotence": True,
            "message.max.bytes": _LARGEST_BYTES,
        }
        self._producer = confluent_kafka.Producer(settings)
        self._loop = asyncio.get_running_loop()

    async def publish(self, data: bytes, attributes: dict[str, str], key: str = "") -> None:
        """Publish a message; once it returns, the brokers have it.

        Raises:
            TooLarge: It is larger than they, or this client, take.
            SourceError: They do not take it now.
        """
        kept: asyncio.Future[confluent_kafka.KafkaError | None] = self._loop.create_future()

        def told(error: confluent_kafka.KafkaError | None, _: Any) -> None:
            self._loop.call_soon_threadsafe(_settle, kept, error)

        headers: list[tuple[str, str | bytes | None]] = [
            (name, value.encode()) for name, value in attributes.items()
        ]
        try:
            self._producer.produce(
                self._topic, data, key.encode() or None, headers=headers, on_delivery=told
            )
        except confluent_kafka.KafkaException as error:
            raise self._refused(error.args[0]) from None
        except BufferError:
            raise SourceError(f"{self._topic}: too much waits to be published") from None
        while not kept.done():
            await asyncio.to_thread(self._producer.poll, 0.1)
            await asyncio.sleep(0)
        error = kept.result()
        if error is not None:
            raise self._refused(error)

    def _refused(self, error: confluent_kafka.KafkaError) -> SourceError:
        kind = TooLarge if error.code() in _TOO_LARGE else SourceError
        return kind(f"{self._topic}: {error.name()}")


def message_of(found: Any) -> Message:
    """Return a message that a consumer got."""
    key = (found.key() or b"").decode(errors="replace")
    position = f"{found.topic()}-{found.partition()}-{found.offset()}"
    return Message(position, found.value() or b"", _headers(found), key)


def _headers(found: Any) -> dict[str, str]:
    """Return the headers of a message; none if a name is no text, which the client cannot read."""
    try:
        pairs: list[tuple[str, bytes | None]] = found.headers() or []
    except (SystemError, ValueError):
        return {}
    return {name: (value or b"").decode(errors="replace") for name, value in pairs}


def _settle(
    kept: "asyncio.Future[confluent_kafka.KafkaError | None]",
    error: confluent_kafka.KafkaError | None,
) -> None:
    if not kept.done():
        kept.set_result(error)
