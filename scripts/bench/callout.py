"""`gke-inference bench callout`: what the callout adds to a request at the gateway.

One Envoy has two listeners in front of one engine: one calls the callout for each request, the
other does not. Both get requests at a steady rate, in turn, over connections that stay open.
"""

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from scripts.bench.callout_gateway import bootstrap
from scripts.bench.hop import percentiles
from scripts.shared.tool_setup import obtain_modules
from scripts.terminal.console import CommandError, console
from twin.host.ports import free_ports
from twin.toolchain import needed_by, tool

Row = dict[str, Any]
_PER_SECOND = 200
_SECONDS = 30
_WARM_UP_SECONDS = 3
_ENGINE_SECONDS = 0.05
_START_SECONDS = 20.0
_KEY = f"gki_aaaaaaaa_{'k' * 43}"
_PROMPT = "Measure what the callout adds to a request at the gateway. " * 20
_LIMIT = 10**9
_CONFIG = {
    "region": "local",
    "replicas": 1,
    "teams": {
        "bench": {
            "models": ["m"],
            "objective": "bench",
            "requests_per_minute": _LIMIT,
            "tokens_per_minute": _LIMIT,
            "tokens_per_month": _LIMIT,
        }
    },
    "keys": {"secret": "projects/p/secrets/s"},
}


def callout_rows() -> list[Row]:
    """Return the latency with and without the callout, and their ratio.

    Raises:
        CommandError: a program did not start, or a request was refused.
    """
    obtain_modules(needed_by("clients"))
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_measure(Path(name)))


async def _measure(folder: Path) -> list[Row]:
    engine, port, plain, admin = free_ports(4)
    runner = await _serve(engine)
    try:
        with _programs(folder, engine, port, plain, admin) as is_ready:
            await _until(is_ready)
            ways = {"through the callout": port, "without it": plain}
            await _load(ways, _WARM_UP_SECONDS)
            return _rows(await _load(ways, _SECONDS))
    finally:
        await runner.cleanup()


def _rows(seconds: dict[str, list[float]]) -> list[Row]:
    through, without = (percentiles(taken) for taken in seconds.values())
    rows: list[Row] = [
        {"what": what, "n": len(seconds[what]), "p50_ms": p50, "p99_ms": p99}
        for what, (p50, p99) in zip(seconds, (through, without), strict=True)
    ]
    p50, p99 = (round(a / b, 3) for a, b in zip(through, without, strict=True))
    rows.append({"what": "ratio", "p50": p50, "p99": p99, "engine_ms": 1000 * _ENGINE_SECONDS})
    rows[-1] |= {"requests_per_second": _PER_SECOND, "load_1m": round(os.getloadavg()[0], 1)}
    for row in rows:
        console.print(row)
    return rows


async def _load(ways: dict[str, int], seconds: int) -> dict[str, list[float]]:
    """Return the seconds of each request, by way; every second pair is sent in the other order."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    body = json.dumps({"model": "m", "prompt": _PROMPT, "max_tokens": 1})
    headers = {"authorization": f"Bearer {_KEY}", "content-type": "application/json"}

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
    """Start the engine, which also stands in for Secret Manager."""
    digest = hashlib.sha256(_KEY.encode()).hexdigest()
    created = "2026-01-01T00:00:00Z"
    key = {"id": "aaaaaaaa", "team": "bench", "sha256": digest, "created": created, "expires": None}
    usage = {"prompt_tokens": 200, "completion_tokens": 1, "total_tokens": 201}

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(_ENGINE_SECONDS)
        return web.json_response({"choices": [{"index": 0, "text": "x"}], "usage": usage})

    async def secret(_request: web.Request) -> web.Response:
        data = base64.b64encode(json.dumps({"keys": [key]}).encode()).decode()
        return web.json_response({"payload": {"data": data}})

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    app.router.add_get("/v1/projects/p/secrets/s/versions/latest:access", secret)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


@contextmanager
def _programs(
    folder: Path, engine: int, port: int, plain: int, admin: int
) -> Generator[Callable[[], bool]]:
    """Run store, callout and Envoy, and yield what tells whether they take requests."""
    store, grpc, health, metrics = free_ports(4)
    config = {**_CONFIG, "store": {"address": f"127.0.0.1:{store}"}}
    (folder / "config.yaml").write_text(json.dumps(config))
    (folder / "envoy.json").write_text(json.dumps(bootstrap(port, admin, [grpc], engine, plain)))
    commands = [
        [tool("valkey"), "--address", f"127.0.0.1:{store}"],
        [
            *(tool("callout"), "--config", folder / "config.yaml", "--address", "127.0.0.1"),
            *("--grpc-port", str(grpc), "--health-port", str(health)),
            *("--metrics-port", str(metrics), "--drain", "0s"),
        ],
        [tool("envoy"), "-c", folder / "envoy.json", "--disable-hot-restart", "--concurrency", "1"],
    ]
    environment = {**os.environ, "SECRET_MANAGER_ENDPOINT": f"http://127.0.0.1:{engine}"}
    started: list[subprocess.Popen[bytes]] = []

    def is_ready() -> bool:
        for process in started:
            if process.poll() is not None:
                raise CommandError(f"{process.args!r} ended: see {folder}")
        wanted = f"callout::127.0.0.1:{grpc}::health_flags::healthy"
        age = "callout_key_document_age_seconds -1"
        clusters = _text(f"http://127.0.0.1:{admin}/clusters")
        counts = _text(f"http://127.0.0.1:{metrics}/metrics")
        return wanted in clusters and counts != "" and age not in counts

    try:
        with (folder / "log").open("wb") as log:
            started.extend(
                subprocess.Popen(command, stdout=log, stderr=log, env=environment)
                for command in commands
            )
        yield is_ready
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(10)


async def _until(is_ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + _START_SECONDS
    while not await asyncio.to_thread(is_ready):
        if time.monotonic() > limit:
            raise CommandError(f"the callout takes no requests after {_START_SECONDS:.0f} s")
        await asyncio.sleep(0.05)


def _text(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own processes
            return answer.read().decode()
    except OSError:
        return ""
