"""Limits over three replicas, and what happens to them when something goes away."""

import asyncio
import time

import aiohttp
import openai
import pytest

from tests.running.callout.world import CLIENT, LOAD_BALANCER, PATIENT, bearer, key_of, until

pytestmark = pytest.mark.needs_tools
FORWARDED = {"x-forwarded-for": f"{CLIENT}, {LOAD_BALANCER}"}


def prompt(max_tokens: int = 1) -> dict[str, object]:
    return {"model": "llama", "max_tokens": max_tokens, "prompt": "x"}


def team(**limits: object) -> dict[str, object]:
    return {"research": {"models": ["llama"], **limits}}


async def _flood(url: str, count: int, at_once: int, max_tokens: int) -> list[int]:
    slots = asyncio.Semaphore(at_once)

    async def one(session: aiohttp.ClientSession) -> int:
        async with slots, session.post(url, json=prompt(max_tokens)) as answer:
            await answer.read()
            return answer.status

    headers = {**bearer("ada"), **FORWARDED}
    async with aiohttp.ClientSession(headers=headers) as session:
        return list(await asyncio.gather(*(one(session) for _ in range(count))))


def flood(world, count: int, max_tokens: int = 1, at_once: int = 6) -> list[int]:
    """Send requests and return their statuses."""
    url = f"{world.url}/v1/chat/completions"
    return asyncio.run(_flood(url, count, at_once, max_tokens))


def test_three_replicas_keep_a_limit_of_requests_within_five_percent(world):
    store = world.start_store()
    world.start(*PATIENT, replicas=3, store=store, teams=team(requests_per_minute=300))
    statuses = flood(world, 600)
    assert set(statuses) == {200, 429}
    assert 285 <= statuses.count(200) <= 315
    assert all(callout.records() for callout in world.callouts), "each replica has a part of them"


def test_three_replicas_keep_a_limit_of_tokens_within_five_percent(world):
    limit = 20_000
    store = world.start_store()
    world.start(*PATIENT, replicas=3, store=store, teams=team(tokens_per_minute=limit))
    statuses = flood(world, 400, max_tokens=100)
    assert set(statuses) == {200, 429}
    used = world.servers.prompt_tokens + world.servers.completion_tokens
    assert 0.95 * limit <= used <= 1.05 * limit


def test_a_refusal_says_when_to_try_again(world):
    world.start(teams=team(requests_per_minute=1))
    first = world.ask(prompt(), bearer("ada"))
    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    refused = world.ask(prompt(), bearer("ada"))
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert 55 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["x-ratelimit-limit-requests"] == "1"


def test_openais_client_waits_as_it_is_told_and_tries_again(world, monkeypatch):
    world.start(teams=team(requests_per_minute=1))
    assert world.ask(prompt(), bearer("ada")).status == 200
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with _client(world, max_retries=2) as client, pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(model="llama", messages=[{"role": "user", "content": "x"}])
    assert refused.value.code == "rate_limit_exceeded"
    assert len(waits) == 2
    assert all(50 <= wait <= 60 for wait in waits)


def test_openais_client_does_not_try_again_when_the_month_is_spent(world, monkeypatch):
    world.start(teams=team(tokens_per_month=1))
    assert world.ask(prompt(), bearer("ada")).status == 200
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("the client waits"))
    with _client(world, max_retries=2) as client, pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(model="llama", messages=[{"role": "user", "content": "x"}])
    assert refused.value.code == "insufficient_quota"


def _client(world, max_retries: int) -> openai.OpenAI:
    url = f"{world.url}/v1"
    return openai.OpenAI(base_url=url, api_key=key_of("ada"), max_retries=max_retries)


def test_a_budget_in_dollars_ends_at_its_price(world):
    store = world.start_store()
    # a request of 1,000 tokens costs 0.0006 dollars, and its prompt next to nothing
    world.start(replicas=3, store=store, teams=team(monthly_usd=0.006))
    statuses = [world.ask(prompt(1000), bearer("ada")).status for _ in range(14)]
    assert statuses == [200] * 10 + [429] * 4
    assert max(c.metric("callout_budget_spent_ratio") for c in world.callouts) >= 1.0


def test_requests_pass_while_the_store_is_away_up_to_each_replicas_share(world):
    store = world.start_store()
    world.start(replicas=3, store=store, teams=team(requests_per_minute=60))
    assert flood(world, 6) == [200] * 6
    world.stop_store()
    began = time.monotonic()
    statuses = flood(world, 120)
    assert set(statuses) == {200, 429}
    assert 54 <= statuses.count(200) + 6 <= 60
    assert time.monotonic() - began < 10
    assert world.metric("callout_store_errors_total") >= 3


def test_what_the_month_cost_meanwhile_is_told_to_a_store_that_is_back(world):
    store = world.start_store()
    world.start(store=store, teams=team(tokens_per_month=1_000_000))
    world.stop_store()
    assert flood(world, 10, max_tokens=1000) == [200] * 10
    world.start_store()
    time.sleep(1.2)  # a store that failed is left alone for a second
    assert world.ask(prompt(), bearer("ada")).status == 200
    used = world.servers.prompt_tokens + world.servers.completion_tokens
    until(lambda: world.metric("callout_budget_spent_ratio") == pytest.approx(used / 1e6))


def test_a_replica_that_is_killed_under_load_loses_no_count_and_no_client(world):
    store = world.start_store()
    world.start(replicas=3, store=store, teams=team(tokens_per_month=10_000_000))

    async def one(client: openai.AsyncOpenAI, slots: asyncio.Semaphore) -> int:
        async with slots:
            made = await client.chat.completions.create(
                model="llama", messages=[{"role": "user", "content": "x"}], max_tokens=10
            )
        return made.usage.completion_tokens if made.usage else 0

    async def load() -> list[int]:
        slots = asyncio.Semaphore(8)
        url = f"{world.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key=key_of("ada"), max_retries=4) as client:
            sent = [asyncio.create_task(one(client, slots)) for _ in range(200)]
            await asyncio.sleep(0.2)
            world.callouts[0].kill()
            return list(await asyncio.gather(*sent))

    assert asyncio.run(load()) == [10] * 200
    used = world.servers.prompt_tokens + world.servers.completion_tokens
    left = world.callouts[1:]

    def spent() -> float:
        assert world.ask(prompt(), bearer("ada")).status == 200
        return 1e7 * max(callout.metric("callout_budget_spent_ratio") for callout in left)

    # what the lost replica had in flight stays counted, as its reservation: at most 8 requests,
    # each with its answer, its body and what a chat's template can add
    until(lambda: spent() >= used, 5)
    most = 8 * (10 + 200 + 512)
    assert spent() <= world.servers.prompt_tokens + world.servers.completion_tokens + most
