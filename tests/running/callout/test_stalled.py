"""A stream whose engine sends nothing any more is ended through the real gateway."""

import time
from typing import Any

import openai
import pytest

from tests.running.callout.world import CLIENT, LOAD_BALANCER, bearer, key_of, until

pytestmark = pytest.mark.needs_tools
IDLE = 1.0
MESSAGES: Any = [{"role": "user", "content": "Which keys open which doors?"}]


def test_a_stream_that_stalls_ends_with_an_error_and_frees_its_engine(world):
    world.start(stream_idle_seconds=IDLE)
    world.servers.event_seconds = 60
    headers = {"x-forwarded-for": f"{CLIENT}, {LOAD_BALANCER}"}
    http = openai.DefaultHttpxClient(trust_env=False)
    url = f"{world.url}/v1"
    with openai.OpenAI(
        api_key=key_of("ada"), base_url=url, default_headers=headers, http_client=http
    ) as client:
        stream = iter(
            client.chat.completions.create(
                model="llama", messages=MESSAGES, max_tokens=9, stream=True
            )
        )
        assert next(stream).choices[0].delta.content == "0 "
        began = time.monotonic()
        with pytest.raises(openai.APIError, match=r"sent nothing for 1 seconds\. Retry"):
            next(stream)
        assert 0.5 * IDLE < time.monotonic() - began < 10 * IDLE
    until(lambda: world.servers.left_streams == 1)
    until(world.records)
    (record,) = world.records()
    assert (record["status"], record["estimated"], record["completion_tokens"]) == (200, True, 1)
    assert world.metric('callout_stalled_streams_total{model="llama"') == 1


def test_events_in_time_keep_a_stream_open(world):
    world.start(stream_idle_seconds=IDLE)
    world.servers.event_seconds = 0.6 * IDLE
    body = {"model": "llama", "max_tokens": 4, "stream": True, "messages": MESSAGES}
    answer = world.ask(body, bearer("ada"))
    assert answer.body.count(b"data: {") == 4
    assert answer.body.endswith(b"data: [DONE]\n\n")
    # it is there before a stream stalls: Prometheus sees no increase of a series that begins so
    assert world.metric('callout_stalled_streams_total{model="llama"') == 0
