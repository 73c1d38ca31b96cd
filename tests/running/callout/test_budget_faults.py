"""Budgets while gates and their store are killed.

`go test` has a whole day of such faults on a clock of its own (limits/month_test.go); here real
programs get SIGKILL behind a real Envoy.
"""

import asyncio
import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import pytest

from tests.running.callout.world import CLIENT, LOAD_BALANCER, PATIENT, bearer, key_entry

pytestmark = pytest.mark.needs_tools
REPLICAS = 3
MOST = 400
"""Tokens of the longest answer."""

AT_ONCE = 16


@dataclass
class Seen:
    """What clients saw."""

    tokens: Counter[str] = field(default_factory=Counter[str])
    """Tokens of whole answers by team."""
    refused: Counter[str] = field(default_factory=Counter[str])
    early: list[str] = field(default_factory=list[str])
    """Teams that were refused although engines had counted less than their budget."""
    waited: int = 0


async def _ask(world, session, team: str, limit: int, seen: Seen, choose: random.Random) -> None:
    body = {"model": "llama", "prompt": "x" * 70, "max_tokens": choose.randint(1, MOST)}
    headers = {**bearer(team), "x-forwarded-for": f"{CLIENT}, {LOAD_BALANCER}"}
    url = f"{world.url}/v1/completions"
    for _ in range(200):
        try:
            async with session.post(url, json=body, headers=headers) as answer:
                found = await answer.json(content_type=None)
                status = answer.status
        except (aiohttp.ClientError, ValueError):
            status, found = 0, {}
        if status == 200:
            seen.tokens[team] += found["usage"]["total_tokens"]
            return
        code = found.get("error", {}).get("code") if isinstance(found, dict) else None
        if code == "insufficient_quota":
            seen.refused[team] += 1
            if world.servers.team_tokens[team] < limit:
                seen.early.append(team)
            return
        seen.waited += 1
        await asyncio.sleep(0.1)
    raise AssertionError(f"no answer for {team}")


async def _faults(world, ends: float, choose: random.Random) -> int:
    kills = 0
    while time.monotonic() < ends:
        await asyncio.sleep(choose.uniform(1.0, 2.5))
        if kills % 3 == 2:
            world.stop_store()
            await asyncio.sleep(choose.uniform(0.1, 1.0))
            world.start_store()
        else:
            one = choose.choice(world.callouts)
            one.kill()
            await asyncio.sleep(choose.uniform(0.1, 0.5))
            await asyncio.to_thread(one.start)
        kills += 1
    return kills


async def _load(world, limits: dict[str, int], seconds: float, seen: Seen, seed: int) -> int:
    choose, ends = random.Random(seed), time.monotonic() + seconds
    names = list(limits)

    async def client(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < ends:
            team = choose.choice(names)
            await _ask(world, session, team, limits[team], seen, choose)

    async with aiohttp.ClientSession() as session:
        faults = asyncio.create_task(_faults(world, ends - 2.5, random.Random(seed + 1)))
        await asyncio.gather(*(client(session) for _ in range(AT_ONCE)))
        return await faults


@pytest.mark.parametrize(
    ("teams", "seconds"),
    [
        pytest.param(40, 12.0, id="short"),
        # the short form is above
        pytest.param(1000, 600.0, id="long", marks=pytest.mark.soak),
    ],
)
def test_budgets_are_exact_while_gates_and_their_store_are_killed(world, teams, seconds):
    choose = random.Random(teams)
    names = map("".join, itertools.product("bcdefghij", repeat=4))
    limits = {name: choose.randint(MOST, 20 * MOST) for name in itertools.islice(names, teams)}
    world.servers.keys = {"keys": [key_entry(name, name) for name in limits]}
    store = world.start_store()
    world.start(
        *PATIENT,
        replicas=REPLICAS,
        store=store,
        teams={
            name: {"models": ["llama"], "tokens_per_month": limit} for name, limit in limits.items()
        },
    )
    seen = Seen()
    kills = asyncio.run(_load(world, limits, seconds, seen, teams))
    time.sleep(2.5)  # replicas settle what the store missed every second
    assert kills >= 3
    assert len(seen.refused) >= teams / 10
    assert seen.early == []
    for team, limit in limits.items():
        assert seen.tokens[team] <= limit + REPLICAS * MOST, team
    month = f"{datetime.now(UTC):%Y%m}"
    ledger = {team: int(world.stored(f"callout:{{{team}}}:month:{month}", "t") or 0)
              for team in limits}  # fmt: skip
    apart = sum(abs(ledger[team] - seen.tokens[team]) for team in limits)
    # a gate can die between its settlement and the end of an answer
    assert apart <= 0.001 * seen.tokens.total() + kills * MOST
