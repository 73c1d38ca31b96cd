"""The parts of a stream's worker: requests out of messages, the limit, waits, and offsets."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from workloads.common.pressure import Pressure, queue_of
from workloads.common.sending import retry_after
from workloads.stream.kafka import Offsets, client_settings
from workloads.stream.messages import Message, Poison, request_of
from workloads.stream.settings import SettingsError, read_settings

NAMES = ("llama", "sql")


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def request(body: Any, **attributes: str) -> Any:
    message = Message("7", json.dumps(body).encode(), attributes)
    return request_of(message, model="llama", names=NAMES, objective="o", max_bytes=100)


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("messages", "/v1/chat/completions"),
        ("prompt", "/v1/completions"),
        ("input", "/v1/embeddings"),
    ],
)
def test_a_message_is_the_kind_of_request_that_its_member_says(member: str, path: str) -> None:
    assert request({member: "a"}).path == path


def test_an_adapter_of_the_stream_may_be_named_and_a_stream_is_not_asked_for() -> None:
    body = request({"prompt": "a", "model": "sql", "stream": True, "stream_options": {}}).body
    assert body == {"prompt": "a", "model": "sql"}


def test_a_request_of_two_kinds_is_none() -> None:
    with pytest.raises(Poison, match="must have one of messages, prompt, input"):
        request({"prompt": "a", "input": "b"})


@pytest.mark.parametrize(("team", "named"), [("", None), ("red", "red")], ids=["no gate", "gate"])
def test_the_gate_is_told_the_team_of_the_stream(team: str, named: str | None) -> None:
    message = Message("7", b'{"prompt": "a"}', {})
    made = request_of(message, model="llama", names=NAMES, objective="", max_bytes=100, team=team)
    assert made.headers.get("x-gki-on-behalf-of") == named


GOOGLE = f"00-{'a' * 32}-{'b' * 16}-01"
PLAIN = f"00-{'c' * 32}-{'d' * 16}-00"


def test_the_trace_of_googles_clients_comes_before_a_plain_one() -> None:
    headers = request({"prompt": "a"}, googclient_traceparent=GOOGLE, traceparent=PLAIN).headers
    assert headers["traceparent"] == GOOGLE
    assert "tracestate" not in headers
    assert "traceparent" not in request({"prompt": "a"}).headers


@pytest.mark.parametrize(
    "parent",
    [
        f"{PLAIN}\n",
        f"{PLAIN}\r\nx-gki-on-behalf-of: red",
        PLAIN.upper(),
        f"ff{PLAIN[2:]}",
        f"00-{'0' * 32}-{'d' * 16}-00",
        f"00-{'c' * 32}-{'0' * 16}-00",
        f"{PLAIN}-more",
        "t",
    ],
)
def test_a_trace_that_is_not_of_w3cs_pattern_is_dropped_with_its_state(parent: str) -> None:
    headers = request({"prompt": "a"}, traceparent=parent, tracestate="a=1").headers
    assert {"traceparent", "tracestate"} & set(headers) == set()


def test_a_state_of_a_trace_with_control_characters_is_dropped_alone() -> None:
    headers = request({"prompt": "a"}, traceparent=PLAIN, tracestate="a=1\n").headers
    assert headers["traceparent"] == PLAIN
    assert "tracestate" not in headers


def test_the_limit_grows_by_one_a_round_and_halves_once_a_moment() -> None:
    async def work() -> None:
        clock = Clock()
        pressure = Pressure(8, clock)
        for _ in range(40):
            while pressure.running < pressure.limit:
                await pressure.enter()
            pressure.answered()
            await pressure.leave()
        assert pressure.limit == 8
        pressure.refused()
        pressure.refused()
        assert pressure.limit == 4
        clock.time += 1.0
        pressure.refused()
        assert pressure.limit == 2

    asyncio.run(work())


def test_nothing_begins_while_the_pool_is_crowded() -> None:
    async def work() -> None:
        pressure = Pressure(8)
        pressure.crowded(True)
        assert pressure.limit == 0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pressure.enter(), 0.05)
        pressure.crowded(False)
        await asyncio.wait_for(pressure.enter(), 2)
        assert pressure.running == 1

    asyncio.run(work())


def test_the_queue_is_that_of_the_fullest_pool() -> None:
    text = (
        "# TYPE inference_pool_average_queue_size gauge\n"
        'inference_pool_average_queue_size{name="a"} 0.5\n'
        'inference_pool_average_queue_size{name="b"} 3\n'
    )
    assert queue_of(text) == 3.0
    assert queue_of("up 1\n") is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("\u00b2", None),
        (None, None),
    ],
)
def test_a_retry_is_asked_for_in_seconds_or_at_a_time(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value, 10.0) == seconds


def test_an_offset_is_committed_when_all_before_it_are_done() -> None:
    offsets = Offsets()
    for offset in (3, 4, 6):
        offsets.add("t", 0, offset)
    assert offsets.done("t", 0, 4) is None
    assert offsets.done("t", 0, 3) == 5
    assert offsets.waiting() == 1
    offsets.forget("t", 0)
    assert offsets.done("t", 0, 6) is None, "another worker has the partition"


def test_each_file_of_the_secret_is_a_setting_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "sasl.password").write_text("secret\n")
    (tmp_path / "..data").mkdir()
    found = client_settings({"brokers": ["a:1", "b:1"], "settings_folder": str(tmp_path)})
    assert found == {"bootstrap.servers": "a:1,b:1", "sasl.password": "secret"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": {"kind": "tape"}}, r"source\.kind: must be one of kafka, pubsub, got 'tape'"),
        ({"endpoint": "10.0.0.1"}, "endpoint: must be a URL, got '10.0.0.1'"),
        ({"attempts": 0}, "attempts: must be 1 to 20, got 0"),
        ({"colour": 1}, "colour: must be one of address, attempts"),
    ],
)
def test_settings_are_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = tmp_path / "settings.json"
    whole: dict[str, Any] = {
        "stream": "s",
        "source": {"kind": "pubsub"},
        "results": {"kind": "topic"},
        "dead_letters": "d",
        "endpoint": "http://h",
        "model": "llama",
        "names": ["llama"],
    }
    file.write_text(json.dumps({**whole, **changes}))
    with pytest.raises(SettingsError, match=f"^{message}"):
        read_settings(file)
