"""A cheaper model answers a team whose budget is spent: router, gate, store and Envoy together."""

import json

import pytest

from tests.running.callout.world import PATIENT, bearer

pytestmark = pytest.mark.needs_tools
LARGE = {"input_usd_per_million": 100.0, "output_usd_per_million": 100.0}
SMALL = {"input_usd_per_million": 1.0, "output_usd_per_million": 1.0}


def test_a_cheaper_model_answers_every_api_once_the_budget_is_spent_and_then_nobody(world):
    spent = {"model": "small", "monthly_usd": 0.001, "replaces": ["llama"]}
    team = {"models": ["llama", "small"], "monthly_usd": 0.002, "when_spent": spent}
    prices = {"llama": LARGE, "small": SMALL}
    teams = {"research": team}
    store = world.start_store()
    world.start(*PATIENT, asked=["llama"], replicas=2, store=store, teams=teams, prices=prices)

    def ask(path: str = "/v1/chat/completions", *, stream: bool = False):
        fields = {"messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x"}
        body = {"model": "llama", "max_tokens": 10, "stream": stream, **fields}
        answer = world.ask(body, bearer("ada"), path=path)
        return answer.status, answer.headers.get("x-gki-instead-of"), answer

    first = ask()
    assert first[:2] == (200, None)
    paths = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"]
    for path in paths:
        status, instead_of, answer = ask(path)
        assert (status, instead_of, json.loads(answer.body)["model"]) == (200, "llama", "small")
    status, instead_of, answer = ask(stream=True)
    assert (status, instead_of) == (200, "llama")
    assert b'"model": "small"' in answer.body
    asked = [json.loads(body)["model"] for _, body in world.servers.requests]
    assert asked == ["llama", *["small"] * 5]

    status, _, refused = next(found for found in (ask() for _ in range(30)) if found[0] != 200)
    assert (status, refused.code) == (429, "insufficient_quota")

    answered = [one for one in world.records() if one["status"] == 200]
    (own,) = [one for one in answered if one["model"] == "llama"]
    others = [one for one in answered if one["model"] == "small"]
    assert {one["instead_of"] for one in others} == {"llama"}
    assert 0.002 <= own["usd"] < 0.003
    assert 0.003 <= own["usd"] + sum(one["usd"] for one in others) < 0.0031
    counted = world.metric('callout_replaced_total{asked="llama",model="small",outcome="ok"')
    assert counted == len(others)
