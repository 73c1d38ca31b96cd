"""What no message can do: stop a worker. Each ends as an answer or as a dead letter."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.common.pressure import Pressure
from workloads.common.sending import Sender
from workloads.stream import worker as of_workers
from workloads.stream.asking import Asking
from workloads.stream.kafka import message_of
from workloads.stream.messages import Message
from workloads.stream.metrics import Metrics
from workloads.stream.settings import Settings
from workloads.stream.source import Delivery, SourceError
from workloads.stream.worker import Worker

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
ATTEMPTS = 3
MOST_DELIVERIES = 20
QUICK: dict[str, Any] = {
    "deadline_seconds": 5.0,
    "first_wait_seconds": 0.001,
    "longest_wait_seconds": 0.002,
}
Respond = Callable[[int, bytes], web.Response]


@dataclass
class World:
    """A source that delivers again what is given back, a model and two topics."""

    kind: str
    respond: Respond
    over: asyncio.Event = field(default_factory=asyncio.Event)
    became: Counter[str] = field(default_factory=Counter[str])
    letters: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    answers: list[bytes] = field(default_factory=list[bytes])
    asked: int = 0
    receive: Any = None
    message: Any = None
    fails: Exception | None = None

    def start(self, receive: Callable[[Delivery], None]) -> None:
        self.receive = receive
        self._deliver()

    def _deliver(self) -> None:
        self.became["delivered"] += 1
        self.receive(Delivery(self.message, self._done, self._give_back))

    def _done(self) -> None:
        self.became["done"] += 1
        self.over.set()

    def _give_back(self) -> None:
        self.became["given back"] += 1
        if self.became["delivered"] >= MOST_DELIVERIES:
            self.over.set()
        else:
            asyncio.get_running_loop().call_soon(self._deliver)

    async def ended(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        return

    async def close(self) -> None:
        return

    async def publish(self, data: bytes, attributes: dict[str, str], key: str = "") -> None:
        """Take a dead letter as strictly as Pub/Sub (quotas of a message) or Kafka's client."""
        sizes = [(len(name.encode()), len(text.encode())) for name, text in attributes.items()]
        key.encode()
        is_large = len(sizes) > 100 or any(name > 256 or text > 1024 for name, text in sizes)
        if self.kind == "pubsub" and is_large:
            raise SourceError("InvalidArgument")
        self.letters.append(attributes)

    async def keep(self, message: Message, answer: bytes, model: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.answers.append(answer)


async def _work(world: World, message: Message, **changes: Any) -> None:
    async def handle(request: web.Request) -> web.Response:
        world.asked += 1
        return world.respond(world.asked, await request.read())

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made = Settings(
        stream="docs",
        source={"kind": world.kind},
        results={"kind": "topic"},
        dead_letters="d",
        endpoint=f"http://127.0.0.1:{runner.addresses[0][1]}",
        model="llama",
        names=("llama",),
        attempts=ATTEMPTS,
        **QUICK | changes,
    )
    world.message = message
    pressure = Pressure(4)
    try:
        async with aiohttp.ClientSession() as session:
            sender = Sender(
                session,
                made.endpoint,
                made.key_file,
                made.first_wait_seconds,
                made.longest_wait_seconds,
            )
            asking = Asking(sender, pressure, attempts=ATTEMPTS)
            worker = Worker(made, world, asking, world, world, Metrics("docs"), pressure)
            await asyncio.wait_for(worker.run(world.over), 20)
    finally:
        await runner.cleanup()
    assert pressure.running == 0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_workers, "_FIRST_KEEP_SECONDS", 0.001)


def worked(
    message: Message,
    respond: Respond = lambda *_: web.json_response({"said": "a"}),
    kind: str = "kafka",
    fails: Exception | None = None,
    **changes: Any,
) -> World:
    """Return what became of one message."""
    world = World(kind, respond, fails=fails)
    asyncio.run(_work(world, message, **changes))
    return world


def prompt(**attributes: str) -> Message:
    return Message("7", b'{"prompt": "a"}', attributes)


@pytest.mark.parametrize("text", ["a\nb", "a\r\nx-gki-on-behalf-of: red", "a\x00", "\x7f"])
def test_a_line_break_in_a_trace_costs_a_message_nothing(text: str) -> None:
    world = worked(prompt(traceparent=text, tracestate=text, googclient_traceparent=text))
    assert world.answers == [b'{"said": "a"}']
    assert world.became == {"delivered": 1, "done": 1}


def test_a_request_that_cannot_be_sent_is_a_dead_letter_after_its_attempts() -> None:
    world = worked(Message("7\n", b'{"prompt": "a"}'))
    (letter,) = world.letters
    assert (letter["reason"], letter["attempts"]) == ("internal-error", str(ATTEMPTS))
    assert world.became == {"delivered": 1, "done": 1}
    assert world.asked == 0


def test_a_request_larger_than_a_limit_of_its_team_is_a_dead_letter() -> None:
    def refuse(*_: Any) -> web.Response:
        headers = {"retry-after": "60", "x-should-retry": "false"}
        body = {"error": {"code": "rate_limit_exceeded"}}
        return web.json_response(body, status=429, headers=headers)

    world = worked(prompt(), refuse)
    (letter,) = world.letters
    assert (letter["reason"], letter["detail"]) == ("http-429", "rate_limit_exceeded")


def test_attempts_count_over_deliveries_so_a_slow_failure_ends() -> None:
    world = worked(
        prompt(),
        lambda *_: web.json_response({}, status=500, headers={"retry-after": "1"}),
        deadline_seconds=0.5,
        longest_wait_seconds=60.0,
    )
    (letter,) = world.letters
    assert (letter["reason"], letter["attempts"]) == ("http-500", str(ATTEMPTS))
    assert world.became == {"delivered": ATTEMPTS, "given back": ATTEMPTS - 1, "done": 1}


def test_an_answer_that_cannot_be_kept_for_no_known_reason_is_a_dead_letter() -> None:
    world = worked(prompt(), fails=LookupError("a"))
    (letter,) = world.letters
    assert (letter["reason"], letter["detail"]) == ("internal-error", "LookupError")
    assert world.asked == 1


def test_a_request_that_fails_for_no_known_reason_is_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(*_: Any) -> None:
        raise LookupError("a")

    monkeypatch.setattr(Asking, "ask", ask)
    world = worked(prompt())
    (letter,) = world.letters
    assert (letter["reason"], letter["detail"]) == ("internal-error", "LookupError")
    assert world.became == {"delivered": 1, "done": 1}


def test_the_code_of_an_error_is_a_detail_whatever_its_characters() -> None:
    body = json.dumps({"error": {"code": "\ud800"}})
    world = worked(prompt(), lambda *_: web.Response(text=body, status=400))
    assert [letter["detail"] for letter in world.letters] == ["?"]


def test_a_key_that_cannot_be_read_makes_no_dead_letter_and_is_waited_for(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"\xff")
    world = worked(prompt(), key_file=str(key), deadline_seconds=0.02)
    assert world.letters == []
    assert world.became == {"delivered": MOST_DELIVERIES, "given back": MOST_DELIVERIES}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
BODY = st.dictionaries(
    st.sampled_from(["prompt", "messages", "input", "model", "stream", "max_tokens", "\ud800"]),
    JSON | st.just("llama"),
    max_size=4,
).map(lambda body: json.dumps(body).encode())
DATA = (
    BODY | BODY | st.binary(max_size=60) | st.sampled_from([b"[" * 900 + b"]" * 900, b"9" * 5000])
)
NAMES = st.sampled_from(["traceparent", "googclient_traceparent", "tracestate", "reason", "data"])
TEXTS = st.sampled_from([PARENT, f"{PARENT}\n"]) | st.text(
    st.characters(codec="utf-8"), max_size=30
)
STATUSES = st.sampled_from([200, 200, 400, 413, 500])
FUZZED = settings(max_examples=60, deadline=None)


def _answered_with(status: int) -> Respond:
    return lambda *_: web.json_response({"error": {"code": "a"}}, status=status)


def _assert_ended(world: World) -> None:
    assert world.became["done"] == 1
    assert len(world.answers) + len(world.letters) == 1


@FUZZED
@given(data=DATA, attributes=st.dictionaries(NAMES | TEXTS, TEXTS, max_size=6), status=STATUSES)
def test_every_message_of_pubsub_ends_answered_or_as_a_dead_letter(
    data: bytes, attributes: dict[str, str], status: int
) -> None:
    message = Message("7", data, attributes)
    _assert_ended(worked(message, _answered_with(status), "pubsub"))


class Found:
    """A message as Kafka's client has it: a header may have any bytes, or none."""

    def __init__(self, value: bytes | None, key: bytes | None, headers: Any) -> None:
        self.value, self.key = lambda: value, lambda: key
        self._headers = headers

    def headers(self) -> Any:
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers

    def topic(self) -> str:
        return "documents"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7


UNREADABLE = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
HEADERS = (
    st.none()
    | st.just(UNREADABLE)
    | st.lists(st.tuples(NAMES | TEXTS, st.none() | st.binary(max_size=60)), max_size=5)
)


@FUZZED
@given(
    value=st.none() | DATA,
    key=st.none() | st.binary(max_size=9),
    headers=HEADERS,
    status=STATUSES,
    is_ordered=st.booleans(),
)
def test_every_message_of_kafka_ends_answered_or_as_a_dead_letter(
    value: bytes | None, key: bytes | None, headers: Any, status: int, is_ordered: bool
) -> None:
    message = message_of(Found(value, key, headers))
    _assert_ended(worked(message, _answered_with(status), "kafka", ordered=is_ordered))
