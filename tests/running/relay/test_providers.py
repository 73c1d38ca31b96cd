"""OpenAI's client library with six providers, each with its own dialect."""

import json
from typing import Any

import openai
import pytest

from tests.running.relay.world import BACKENDS, KEYS, Relay, target, until

pytestmark = pytest.mark.needs_tools
SENT_TO = {
    "claude": ("api.anthropic.com", "/v1/chat/completions"),
    "gemini-flash": (
        "us-central1-aiplatform.googleapis.com",
        "/v1/projects/acme/locations/us-central1/endpoints/openapi/chat/completions",
    ),
    "gemini-key": ("generativelanguage.googleapis.com", "/v1beta/openai/chat/completions"),
    "gpt": ("api.openai.com", "/v1/chat/completions"),
    "on-premises": ("llm.dc1.example.internal", "/v1/chat/completions"),
    "small": ("gemma-1.us-central1.run.app", "/v1/chat/completions"),
}
MESSAGES: Any = [{"role": "user", "content": "Which keys open which doors?"}]


def test_one_client_reaches_six_runtimes_through_one_endpoint(relay: Relay):
    relay.start()
    with relay.client() as client:
        for model, (host, path) in SENT_TO.items():
            answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=5)
            assert str(answer.choices[0].message.content).startswith(host)
            assert answer.usage is not None
            assert answer.usage.completion_tokens == 5
            sent = relay.providers.requests[-1]
            assert (sent[0], sent[1], sent[3]["model"]) == (host, path, BACKENDS[model]["model"])
            chunks = list(
                client.chat.completions.create(
                    model=model, messages=MESSAGES, max_tokens=5, stream=True
                )
            )
            assert [bool(chunk.choices) for chunk in chunks] == [True] * 5, "no event of usage"
    assert relay.metric('relay_tokens_total{backend="gpt",direction="output"}') == 10
    for _, _, headers, _ in relay.providers.requests:
        assert "gki_of-a-client" not in json.dumps(headers)
        assert set(headers) <= {
            *("accept", "authorization", "content-length", "content-type", "host", "user-agent")
        }


def test_a_client_that_asks_for_usage_or_a_gate_in_front_gets_it(relay: Relay):
    gated = {"timeout_seconds": 10, "force_usage": True, "targets": [BACKENDS["gpt"]]}
    relay.start(backends={"gated": gated})
    with relay.client() as client:
        asked: Any = {"include_usage": True}
        for model, more in (("gpt", {"stream_options": asked}), ("gated", {})):
            chunks = list(
                client.chat.completions.create(
                    model=model, messages=MESSAGES, max_tokens=5, stream=True, **more
                )
            )
            assert chunks[-1].usage is not None
            assert chunks[-1].usage.completion_tokens == 5


def test_a_stream_arrives_while_it_is_made(relay: Relay):
    relay.start()
    relay.providers.event_seconds = 60
    with relay.client() as client:
        stream = client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
        first = next(iter(stream))
        assert first.choices[0].delta.content == "api.openai.com "
        relay.providers.event_seconds = 0
        relay.providers.pause.set()
        assert len(list(stream)) == 7


@pytest.mark.parametrize(
    ("host", "status", "error", "code"),
    [
        ("api.openai.com", 400, openai.BadRequestError, "backend_refused"),
        ("api.openai.com", 429, openai.RateLimitError, "rate_limit_exceeded"),
        ("api.openai.com", 500, openai.InternalServerError, "backend_failed"),
        ("api.anthropic.com", 529, openai.InternalServerError, "backend_overloaded"),
        (
            "us-central1-aiplatform.googleapis.com",
            429,
            openai.RateLimitError,
            "rate_limit_exceeded",
        ),
        ("us-central1-aiplatform.googleapis.com", 400, openai.BadRequestError, "backend_refused"),
        ("gemma-1.us-central1.run.app", 503, openai.InternalServerError, "backend_overloaded"),
    ],
)
def test_an_error_of_a_provider_is_one_of_openais(
    relay: Relay, host: str, status: int, error: type[openai.APIStatusError], code: str
):
    relay.start()
    relay.providers.faults[host] = [status]
    model = next(name for name, (its, _) in SENT_TO.items() if its == host)
    with relay.client() as client, pytest.raises(error) as refused:
        client.chat.completions.create(model=model, messages=MESSAGES)
    assert refused.value.code == code


@pytest.mark.parametrize("model", ["claude", "gemini-flash", "gemini-key", "gpt", "small"])
def test_a_credential_that_a_provider_refuses_is_the_platforms_fault(relay: Relay, model: str):
    relay.secrets.keys = dict.fromkeys(KEYS, "wrong-key-of-the-platform")
    relay.is_granted = False
    relay.start()
    answer = relay.ask(model)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "backend_credentials")
    assert "wrong-key" not in answer.text


def test_a_provider_without_a_credential_is_never_called(relay: Relay):
    relay.secrets.keys = {}
    relay.start()
    assert relay.ask("gpt").json()["error"]["code"] == "backend_credentials"
    assert relay.providers.requests == []


def test_a_key_is_replaced_without_a_restart(relay: Relay):
    relay.secrets.keys["openai"] = "wrong-key-of-the-platform"
    relay.start()
    assert relay.ask("gpt").status_code == 502
    relay.secrets.keys["openai"] = KEYS["openai"]
    until(lambda: relay.ask("gpt").status_code == 200, 10)


def test_no_credential_and_no_body_is_ever_logged(relay: Relay):
    relay.start()
    for model, (host, _) in SENT_TO.items():
        for fault in (400, 401, 500, 503):
            relay.providers.faults[host] = [fault]
            relay.ask(model, metadata={"note": "of-a-client"})
        relay.ask(model, metadata={"note": "of-a-client"})
    relay.stop()
    log = relay.log.read_text()
    assert '"result":"503"' in log
    for word in (*KEYS.values(), "Bearer", "ya29", "twin-id-token", "of-a-client", "Which door"):
        assert word not in log


def test_another_target_answers_where_one_has_no_room(relay: Relay):
    busy = {**BACKENDS["gemini-flash"], "name": "busy", "weight": 1_000_000}
    other = {**BACKENDS["gemini-key"], "name": "other"}
    relay.start(backends={"both": {"timeout_seconds": 10, "targets": [other, busy]}})
    relay.providers.faults["us-central1-aiplatform.googleapis.com"] = [429]
    assert relay.ask("both").status_code == 200
    hosts = [request[0] for request in relay.providers.requests]
    assert hosts == ["us-central1-aiplatform.googleapis.com", "generativelanguage.googleapis.com"]
    assert relay.metric('relay_attempts_total{backend="both",result="429",target="busy"}') == 1


def test_another_target_answers_where_one_cannot_be_reached(relay: Relay):
    gone = {**target("http://127.0.0.1:1/v1", "m"), "name": "gone", "weight": 1_000_000}
    other = {**BACKENDS["on-premises"], "name": "other"}
    relay.start(backends={"both": {"timeout_seconds": 10, "targets": [other, gone]}})
    assert relay.ask("both").status_code == 200
    assert relay.metric('relay_attempts_total{backend="both",result="unreachable"') == 1


def test_an_answer_that_takes_too_long_is_a_timeout_of_openais_api(relay: Relay):
    relay.providers.event_seconds = 60
    slow = {"timeout_seconds": 0.3, "targets": [BACKENDS["gpt"]]}
    relay.start(backends={"slow": slow})
    with relay.client() as client, pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="slow", messages=MESSAGES, stream=True))
    relay.providers.pause.set()


def test_a_stream_that_stalls_ends_with_an_error_and_is_counted(relay: Relay):
    relay.providers.event_seconds = 60
    slow = {"idle_seconds": 0.5, "timeout_seconds": 60, "targets": [BACKENDS["gpt"]]}
    relay.start(backends={"slow": slow})
    with relay.client() as client:
        stream = iter(client.chat.completions.create(model="slow", messages=MESSAGES, stream=True))
        assert next(stream).choices[0].delta.content == "api.openai.com "
        with pytest.raises(openai.APIError, match="backend sent nothing for too long"):
            next(stream)
    assert relay.metric('relay_stalled_streams_total{backend="slow"}') == 1
    relay.providers.pause.set()


def test_a_backend_that_is_added_is_served_without_a_restart(relay: Relay):
    relay.start()
    assert relay.ask("added").json()["error"]["code"] == "model_not_found"
    relay.write(backends={"added": {"timeout_seconds": 5, "targets": [BACKENDS["gpt"]]}})
    until(lambda: relay.ask("added").status_code == 200, 10)


def test_requests_in_flight_end_before_the_program(relay: Relay):
    relay.start()
    relay.providers.event_seconds = 0.2
    with relay.client() as client:
        stream = client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
        next(iter(stream))
        assert relay.process is not None
        relay.process.terminate()
        until(lambda: relay.health() == 503, 5)
        assert len(list(stream)) == 7
    assert relay.process.wait(20) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("backends: {}", "backends: must have one or more, got none"),
        ("backends: [", "yaml: line 1"),
    ],
)
def test_a_bad_first_file_ends_the_program_with_one_line(relay: Relay, text: str, message: str):
    relay.write()
    relay.file.write_text(text)
    relay.write = lambda **_: None
    with pytest.raises(AssertionError, match=message):
        relay.start()
    assert relay.process is not None
    assert relay.process.wait(5) == 2
    assert len(relay.log.read_text().splitlines()) == 1


def test_a_credential_goes_to_no_host_that_an_environment_names(relay: Relay):
    relay.environment = {"RELAY_HOSTS": "api.openai.com=http://10.0.0.1:80"}
    with pytest.raises(AssertionError, match="must have HOST=URL with an address on this machine"):
        relay.start()
