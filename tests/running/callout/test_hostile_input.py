"""Requests that try to get round the callout."""

import http.client
import json

import pytest

from tests.running.callout.world import LOAD_BALANCER, PATIENT, bearer, key_of

pytestmark = pytest.mark.needs_tools
PROMPT = {"model": "llama", "max_tokens": 1, "prompt": "a secret prompt"}
LIMIT_BYTES = 100_000
GUESSES = 20

CASES = {
    "two models": (b'{"model":"llama","model":"other"}', {}, 400, "duplicate_key"),
    "an escaped second model": (
        b'{"model":"llama","mod\\u0065l":"other"}',
        {},
        400,
        "duplicate_key",
    ),
    "no model": (b'{"prompt":"x"}', {}, 400, "invalid_model"),
    "a list of models": (b'{"model":["llama"]}', {}, 400, "invalid_model"),
    "another model": (b'{"model":"other"}', {}, 404, "model_not_found"),
    "routed by another model": (PROMPT, {"x-gateway-model-name": "other"}, 400, "model_mismatch"),
    "half a body": (b'{"model":"llama"', {}, 400, "invalid_json"),
    "two bodies": (b'{"model":"llama"}{"model":"other"}', {}, 400, "invalid_json"),
    "no body": (b"", {}, 400, "invalid_json"),
    "deep": (b'{"model":"llama","x":' + b"[" * 50_000, {}, 400, "invalid_json"),
    "a form": (b"model=llama", {"content-type": "text/plain"}, 415, "unsupported_media_type"),
    "compressed": (PROMPT, {"content-encoding": "gzip"}, 415, "unsupported_media_type"),
    "too large": (b'{"model":"llama","p":"' + b"x" * LIMIT_BYTES, {}, 413, "request_too_large"),
    "tokens below zero": ({**PROMPT, "max_tokens": -5}, {}, 400, "invalid_type"),
}


def test_hostile_requests_are_refused_and_reach_no_engine(world):
    world.start("--max-body-bytes", str(LIMIT_BYTES))
    found = {}
    for name, (body, headers, _, _) in CASES.items():
        answer = world.ask(body, {**bearer("ada"), **headers})
        found[name] = (answer.status, answer.code)
    assert found == {name: (status, code) for name, (_, _, status, code) in CASES.items()}
    assert world.servers.requests == []


def test_a_team_does_not_reach_the_adapter_of_another_team(world):
    teams = {
        "research": {"models": ["llama", "llama-sql"]},
        "web": {"models": ["llama", "llama-shop"]},
    }
    world.start(teams=teams)
    ours, theirs = ({**PROMPT, "model": f"llama-{name}"} for name in ("sql", "shop"))
    answer = world.ask(theirs, bearer("ada"))
    assert (answer.status, answer.code) == (404, "model_not_found")
    answer = world.ask(theirs, {**bearer("ada"), "x-gateway-model-name": "llama-sql"})
    assert (answer.status, answer.code) == (400, "model_mismatch")
    assert world.servers.requests == []
    assert world.ask(ours, bearer("ada")).status == 200
    assert world.ask(theirs, bearer("bob")).status == 200


def test_a_body_without_a_length_is_bounded_as_well(world):
    world.start("--max-body-bytes", str(LIMIT_BYTES))
    parts = iter([b'{"model":"llama","p":"', *[b"x" * 20_000] * 10])
    headers = {**bearer("ada"), "content-type": "application/json", "transfer-encoding": "chunked"}
    status, body = _send(world, parts, headers)
    assert (status, json.loads(body)["error"]["code"]) == (413, "request_too_large")
    assert world.servers.requests == []


def _send(world, parts, headers):
    connection = http.client.HTTPConnection(world.url.removeprefix("http://"), timeout=20)
    try:
        connection.request("POST", "/v1/chat/completions", parts, headers, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/metrics", "/v1/load_lora_adapter", "/v1/../metrics", "/v1//completions", "/sleep"]
)
def test_paths_beside_those_for_prompts_are_refused(world, path):
    world.start()
    answer = world.ask(PROMPT, bearer("ada"), path)
    assert (answer.status, answer.code) == (404, "unknown_url")
    assert world.servers.requests == []


def test_guessing_keys_is_slowed_down_for_the_address_that_guesses(world):
    store = world.start_store()
    world.start(*PATIENT, replicas=3, store=store)

    def guess(address: str, number: int) -> int:
        # what a client writes in front of its address changes nothing
        forwarded = {"x-forwarded-for": f"198.51.100.{number}, {address}, {LOAD_BALANCER}"}
        return world.ask(PROMPT, {**bearer("eve"), **forwarded}).status

    statuses = [guess("203.0.113.50", number) for number in range(30)]
    assert statuses == [401] * GUESSES + [429] * (30 - GUESSES)
    assert guess("203.0.113.51", 1) == 401
    shared = {"x-forwarded-for": f"203.0.113.50, {LOAD_BALANCER}"}
    assert world.ask(PROMPT, {**bearer("ada"), **shared}).status == 200


def test_behind_two_load_balancers_a_guesser_slows_nobody_else_down(world):
    """The gateway of a region sees one address for all clients of a global load balancer."""
    world.start("--forwarded-hops=4")

    def guess(address: str) -> int:
        forwarded = f"198.51.100.1, {address}, {LOAD_BALANCER}, 10.3.0.2, 10.0.0.9"
        return world.ask(PROMPT, {**bearer("eve"), "x-forwarded-for": forwarded}).status

    assert [guess("203.0.113.50") for _ in range(30)].count(429) == 30 - GUESSES
    assert guess("203.0.113.51") == 401


def test_neither_logs_nor_records_have_prompts_or_credentials(world):
    world.start()
    world.ask(PROMPT, bearer("ada"))
    world.ask(PROMPT, bearer("eve"))
    world.ask(b'{"model":"a secret prompt"', bearer("ada"))
    world.callouts[0].stop()
    written = world.callouts[0].log.read_text() + world.callouts[0].out.read_text()
    assert len(world.records()) == 2
    for secret in ("secret prompt", key_of("ada")[13:], key_of("eve")[13:]):
        assert secret not in written
