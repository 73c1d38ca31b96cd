"""`bench callout`: the latency that the callout adds at the gateway.

One Envoy has two listeners in front of one engine: one calls the callout for each request, the
other does not. Both get requests in turn at a steady rate, over persistent connections.
"""

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from bench.latency.callout_programs import (
    KEY,
    SECRET,
    TEAM,
    page_of,
    programs,
    secret,
    until,
)
from bench.latency.hop import percentiles
from bench.latency.processing import Histogram, added, own_mean_ms, phase_rows
from scripts.shared.tool_setup import obtain_modules
from scripts.terminal.console import CommandError, console
from twin.host.ports import free_ports
from twin.toolchain import needed_by

Row = dict[str, Any]
_PER_SECOND = 200
_SECONDS = 30
_WARM_UP_SECONDS = 3
_ENGINE_SECONDS = 0.05
_PROMPT = "Measure what the callout adds to a request at the gateway. " * 20
_LIMIT = 10**9


def _config(store: str) -> dict[str, Any]:
    limits = ("requests_per_minute", "tokens_per_minute", "tokens_per_month")
    team = {"models": ["m"], "objective": "bench", **dict.fromkeys(limits, _LIMIT)}
    return {
        "keys": {"secret": SECRET},
        "region": "local",
        "replicas": 1,
        "store": {"address": store},
        "teams": {TEAM: team},
    }


def callout_rows() -> list[Row]:
    """Return the latency with and without the callout, their ratio, and the callout's own time.

    Raises:
        CommandError: a program did not start, or a request was refused.
    """
    obtain_modules(needed_by("clients"))
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_measure(Path(name)))


async def _measure(folder: Path) -> list[Row]:
    engine, port, plain, metrics = free_ports(4)
    page = f"http://127.0.0.1:{metrics}/metrics"
    runner = await _serve(engine)
    try:
        with programs(folder, engine, port, _config, plain, metrics) as is_ready:
            await until(is_ready)
            ways = {"through the callout": port, "without it": plain}
            await _load(ways, _WARM_UP_SECONDS)
            before = await asyncio.to_thread(metrics_of, page)
            taken = await _load(ways, _SECONDS)
            return _rows(taken, added(before, await asyncio.to_thread(metrics_of, page)))
    finally:
        await runner.cleanup()


def metrics_of(page: str) -> str:
    """Return the metrics of the callout.

    Raises:
        CommandError: It does not answer, and its own share would be wrong.
    """
    found = page_of(page)
    if not found:
        raise CommandError("callout: must show its metrics, got no answer")
    return found


def _rows(seconds: dict[str, list[float]], phases: dict[str, Histogram]) -> list[Row]:
    """Return and print the rows; a phase of the callout is a part of `through the callout`."""
    through, without = (percentiles(taken) for taken in seconds.values())
    rows: list[Row] = [
        {"what": what, "n": len(seconds[what]), "p50_ms": p50, "p99_ms": p99}
        for what, (p50, p99) in zip(seconds, (through, without), strict=True)
    ]
    p50, p99 = (round(a / b, 3) for a, b in zip(through, without, strict=True))
    rows.append({"what": "ratio", "p50": p50, "p99": p99, "engine_ms": 1000 * _ENGINE_SECONDS})
    rows.extend(phase_rows(phases))
    means = [1000 * sum(taken) / len(taken) for taken in seconds.values()]
    own = own_mean_ms(phases, len(seconds["through the callout"]))
    rows.append({"what": "added", "mean_ms": round(means[0] - means[1], 3), "in_callout_ms": own})
    rows[-1] |= {"requests_per_second": _PER_SECOND, "load_1m": round(os.getloadavg()[0], 1)}
    for row in rows:
        console.print(row)
    return rows


async def _load(ways: dict[str, int], seconds: int) -> dict[str, list[float]]:
    """Return the seconds of each request, by path; the order alternates from pair to pair."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    body = json.dumps({"model": "m", "prompt": _PROMPT, "max_tokens": 1})
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}

    async def one(session: aiohttp.ClientSession, way: str) -> None:
        begun = time.perf_counter()
        url = f"http://127.0.0.1:{ways[way]}/v1/completions"
        async with session.post(url, data=body) as answer:
            text = await answer.read()
            if answer.status != web.HTTPOk.status_code:
                raise CommandError(f"{way}: HTTP {answer.status} {text[:200]!r}")
        taken[way].append(time.perf_counter() - begun)

    async with aiohttp.ClientSession(headers=headers) as session, asyncio.TaskGroup() as group:
        begun = time.perf_counter()
        for number in range(_PER_SECOND * seconds):
            await asyncio.sleep(max(0.0, begun + number / _PER_SECOND - time.perf_counter()))
            order = list(ways)
            for way in order if number % 2 == 0 else order[::-1]:
                group.create_task(one(session, way))
    return taken


async def _serve(port: int) -> web.AppRunner:
    """Start the engine, which also simulates Secret Manager."""
    usage = {"prompt_tokens": 200, "completion_tokens": 1, "total_tokens": 201}

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(_ENGINE_SECONDS)
        return web.json_response({"choices": [{"index": 0, "text": "x"}], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    app.router.add_get(f"/v1/{SECRET}/versions/latest:access", secret)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner
