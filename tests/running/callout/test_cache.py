"""Cached answers: who gets them, who does not, and the effect of a failing cache."""

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.running.callout.world import World, bearer, key_of, until
from twin.host.ports import free_port

pytestmark = pytest.mark.needs_tools
TEAMS = {
    "research": {"models": ["llama", "llama-sql"], "cache": True},
    "web": {"models": ["llama"], "cache": True, "requests_per_minute": 100},
}
QUESTION = "How do I reset the password of my account?"
PARAPHRASE = "How do I reset the password of my account, please?"
OTHER = "What does a region of the cloud cost per month?"


@pytest.fixture
def cached(world: World) -> World:
    """Return a gateway whose teams have a cache."""
    store = world.start_store()
    world.start(teams=TEAMS, cache=settings(world, store))
    return world


def settings(world: World, store: dict[str, str], **more: Any) -> dict[str, Any]:
    embeddings = {"url": world.servers.url, "model": "bge"}
    return {
        "embeddings": embeddings,
        "models": ["llama"],
        "store": store,
        "threshold": 0.85,
        "timeout_ms": 800,
        **more,
    }


def chat(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "llama", "messages": [{"role": "user", "content": question}], **more}


def engine_requests(world: World) -> int:
    return len(world.servers.requests)


def outcome(world: World, body: dict[str, Any], who: str = "ada", **headers: str) -> str:
    """Send a request and return what the cache says about it; wait until its answer is stored."""
    answer = world.ask(body, {**bearer(who), **headers})
    assert answer.status == 200, answer.body
    found = answer.headers.get("cache-status", "none")
    if "fwd=" in found:
        until(lambda: len(world.records()) == answers(world))
    return found.removeprefix("gke-inference; ").split(";")[0]


def answers(world: World) -> float:
    return world.metric("callout_requests_total")


def client_of(world: World) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{world.url}/v1", api_key=key_of("ada"), max_retries=0)


def test_a_question_that_means_the_same_gets_the_answer_that_is_known(cached):
    assert outcome(cached, chat(QUESTION)) == "fwd=miss"
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")
    first = engine_requests(cached)
    answer = cached.ask(chat(PARAPHRASE), bearer("ada"))
    assert engine_requests(cached) == first
    assert answer.headers["cache-status"].startswith('gke-inference; hit; detail="similarity=0.')
    assert int(answer.headers["age"]) >= 0
    body = json.loads(answer.body)
    assert body["choices"][0]["message"]["content"].startswith('a "usage" {')
    assert body["usage"]["completion_tokens"] == 16
    assert outcome(cached, chat(OTHER)) == "fwd=miss"


def test_a_stream_and_a_whole_answer_are_the_same_one(cached):
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    client = client_of(cached)

    def streamed(**more: Any) -> tuple[str, list[int]]:
        chunks = list(
            client.chat.completions.create(model="llama", messages=messages, stream=True, **more)
        )
        text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
        return text, [one.usage.completion_tokens for one in chunks if one.usage]

    made, _ = streamed(max_tokens=5)
    assert made == "0 1 2 3 4 "
    until(lambda: outcome(cached, chat(QUESTION, max_tokens=5)) == "hit")
    before = engine_requests(cached)
    assert streamed(max_tokens=5, stream_options={"include_usage": True}) == (made, [5])
    assert streamed(max_tokens=5) == (made, [])
    whole = client.chat.completions.create(model="llama", messages=messages, max_tokens=5)
    assert whole.choices[0].message.content == made
    assert engine_requests(cached) == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"model": "llama-sql"}, id="another model, which has no cache"),
        pytest.param({"max_tokens": 3}, id="another length"),
        pytest.param({"temperature": 1.0}, id="another temperature"),
        pytest.param(
            {
                "messages": [
                    {"role": "system", "content": "Answer in Latin."},
                    {"role": "user", "content": QUESTION},
                ]
            },
            id="another system prompt",
        ),
        pytest.param({"n": 2}, id="several choices"),
        pytest.param({"tools": [{"type": "function", "function": {"name": "f"}}]}, id="tools"),
    ],
)
def test_whatever_shapes_an_answer_must_be_equal(cached, change):
    outcome(cached, chat(QUESTION))
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")
    assert outcome(cached, {**chat(QUESTION), **change}) != "hit"


def test_nothing_of_a_team_reaches_another(cached):
    outcome(cached, chat(QUESTION))
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")
    assert outcome(cached, chat(QUESTION), who="bob") == "fwd=miss"


def test_clients_say_that_they_want_a_new_answer_or_that_theirs_is_not_kept(cached):
    before = answers(cached)
    assert outcome(cached, chat(QUESTION), **{"cache-control": "no-store"}) == "fwd=request"
    assert outcome(cached, chat(QUESTION), **{"cache-control": "no-cache"}) == "fwd=request"
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")
    engine = engine_requests(cached)
    assert outcome(cached, chat(QUESTION), **{"cache-control": "no-cache"}) == "fwd=request"
    assert engine_requests(cached) == engine + 1
    assert cached.metric('callout_cache_total{model="llama",outcome="bypass"') == 3
    assert answers(cached) >= before + 4


def test_an_answer_is_forgotten_when_its_time_is_over(world):
    store = world.start_store()
    world.start(teams=TEAMS, cache=settings(world, store, ttl_seconds=1))
    outcome(world, chat(QUESTION))
    until(lambda: outcome(world, chat(QUESTION)) == "hit")
    until(lambda: outcome(world, chat(QUESTION)) == "fwd=miss", 10)


def test_a_hit_costs_a_request_and_no_tokens_and_its_record_says_what_it_saved(cached):
    outcome(cached, chat(QUESTION, max_tokens=100))
    until(lambda: outcome(cached, chat(QUESTION, max_tokens=100)) == "hit")
    until(lambda: cached.records()[-1].get("cache") == "hit")
    made, *_, hit = cached.records()
    assert made["cache"] == "miss"
    assert (hit["prompt_tokens"], hit["completion_tokens"], hit["usd"]) == (0, 0, 0)
    assert hit["saved_usd"] == pytest.approx(made["usd"], abs=1e-9) != 0
    assert hit["status"] == 200


@pytest.mark.parametrize("away", ["embeddings", "store"])
def test_a_cache_that_is_away_makes_no_request_fail(cached, away):
    outcome(cached, chat(QUESTION))
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")
    if away == "store":
        cached.stop_store()
    else:
        cached.servers.embeds = False
    assert outcome(cached, chat(QUESTION)) == "fwd=bypass"
    if away == "store":
        cached.start_store()
    else:
        cached.servers.embeds = True
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")


@pytest.mark.parametrize("phase", ["input", "output"])
def test_an_answer_that_no_guard_has_seen_is_not_kept(world, phase):
    store = world.start_store()
    away = {
        "failure": "open",
        "phases": [phase],
        "timeout_ms": 100,
        "url": f"http://127.0.0.1:{free_port()}",
    }
    world.start(
        cache=settings(world, store),
        guards={"house": away},
        models={"llama": {"guards": ["house"]}},
        teams=TEAMS,
    )
    for _ in range(3):
        assert outcome(world, chat(QUESTION)) == "fwd=miss"
    assert world.metric('callout_guard_total{guard="house"') == 3


def test_no_question_and_no_answer_is_in_a_log(cached):
    outcome(cached, chat(QUESTION))
    until(lambda: outcome(cached, chat(QUESTION)) == "hit")
    (callout,) = cached.callouts
    for written in (callout.out.read_text(), callout.log.read_text()):
        assert "password" not in written
        assert 'usage\\" {' not in written
