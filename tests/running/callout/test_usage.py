"""Recorded usage of requests."""

import http.client
import itertools
import json
import time

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.running.callout.world import bearer, key_of, until

pytestmark = pytest.mark.needs_tools
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there"}]


def client_of(world) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{world.url}/v1", api_key=key_of("ada"), max_retries=0)


def test_records_are_what_the_engine_counted(world):
    world.start()
    client = client_of(world)
    for number in range(30):
        model = "llama" if number % 2 else "llama-sql"
        client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=1 + number)
        stream = client.chat.completions.create(
            model=model, messages=MESSAGES, max_tokens=2 + number, stream=True
        )
        assert len(list(stream)) == 2 + number, "without the event that nobody asked for"
    until(lambda: len(world.records()) == 60)
    records = world.records()
    assert sum(r["prompt_tokens"] for r in records) == world.servers.prompt_tokens
    assert sum(r["completion_tokens"] for r in records) == world.servers.completion_tokens
    assert not any(r["estimated"] for r in records)
    assert world.metric('callout_tokens_total{kind="completion"') == world.servers.completion_tokens


def test_a_record_has_its_request_and_its_price(world):
    world.start()
    body = {"model": "llama", "max_tokens": 100, "prompt": "x" * 200}
    assert world.ask(body, {**bearer("ada"), "x-request-id": "r-1"}).status == 200
    until(world.records)
    (record,) = world.records()
    prompt = world.servers.prompt_tokens
    assert record.pop("duration_ms") < 5000
    assert record.pop("time").endswith("Z")
    assert record.pop("usd") == pytest.approx((prompt * 0.2 + 100 * 0.6) / 1e6, abs=1e-9)
    assert record == {
        "request_id": "r-1",
        "team": "research",
        "key_id": "adaaaaaa",
        "model": "llama",
        "region": "us-central1",
        "status": 200,
        "stream": False,
        "prompt_tokens": prompt,
        "cached_tokens": prompt // 2,
        "completion_tokens": 100,
        "estimated": False,
    }


def test_a_client_that_asks_a_stream_for_its_usage_gets_it(world):
    world.start()
    stream = client_of(world).chat.completions.create(
        model="llama",
        messages=MESSAGES,
        max_tokens=4,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert len(chunks) == 5
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4


def test_events_are_counted_where_an_engine_reports_no_usage(world):
    world.servers.reports_usage = False
    world.start()
    stream = client_of(world).chat.completions.create(
        model="llama", messages=MESSAGES, max_tokens=9, stream=True
    )
    assert len(list(stream)) == 9
    until(world.records)
    (record,) = world.records()
    assert (record["completion_tokens"], record["estimated"]) == (9, True)


def stream_of(world, events: int) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    body = {"model": "llama", "messages": MESSAGES, "max_tokens": events, "stream": True}
    connection = http.client.HTTPConnection(world.url.removeprefix("http://"), timeout=30)
    headers = {**bearer("ada"), "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return connection, connection.getresponse()


def test_events_pass_as_they_come(world):
    world.servers.event_seconds = 0.3
    world.start()
    began = time.monotonic()
    connection, answer = stream_of(world, 6)
    arrivals = []
    while line := answer.readline():
        if line.startswith(b"data: {"):
            arrivals.append(time.monotonic() - began)
    connection.close()
    assert len(arrivals) == 6
    gaps = [after - before for before, after in itertools.pairwise(arrivals)]
    assert min(gaps) > 0.15
    assert arrivals[0] < 1.0


def test_a_client_that_hangs_up_pays_for_what_it_got(world):
    world.servers.event_seconds = 0.05
    world.start()
    connection, answer = stream_of(world, 1000)
    for _ in range(20):
        answer.readline()
    answer.close()
    connection.close()
    until(world.records)
    (record,) = world.records()
    assert record["estimated"]
    assert 10 <= record["completion_tokens"] < 100


def test_a_replica_that_ends_finishes_its_streams_first(world):
    world.servers.event_seconds = 0.1
    world.start()
    connection, answer = stream_of(world, 30)
    assert answer.readline().startswith(b"data: ")
    world.callouts[0].terminate()
    rest = answer.read()
    connection.close()
    assert rest.count(b'"delta"') == 29
    assert rest.endswith(b"data: [DONE]\n\n")
    assert world.callouts[0].process.wait(10) == 0
    (record,) = world.records()
    assert (record["completion_tokens"], record["estimated"]) == (30, False)
