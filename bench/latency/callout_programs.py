"""The programs for measuring the callout: Valkey, the callout, and Envoy in front of it."""

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from bench.latency.callout_gateway import bootstrap
from scripts.terminal.console import CommandError
from twin.host.ports import free_ports
from twin.toolchain import tool

KEY = f"gki_aaaaaaaa_{'k' * 43}"
TEAM = "bench"
SECRET = "projects/p/secrets/s"  # noqa: S105 - a name
_START_SECONDS = 20.0


async def secret(_request: web.Request) -> web.Response:
    """Answer as Secret Manager with the hash of the key, at `/v1/SECRET/versions/latest:access`."""
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    created = "2026-01-01T00:00:00Z"
    key = {"id": "aaaaaaaa", "team": TEAM, "sha256": digest, "created": created, "expires": None}
    data = base64.b64encode(json.dumps({"keys": [key]}).encode()).decode()
    return web.json_response({"payload": {"data": data}})


@contextmanager
def programs(
    folder: Path,
    engine: int,
    port: int,
    config: Callable[[str], Mapping[str, Any]],
    plain: int | None = None,
    metrics: int | None = None,
) -> Generator[Callable[[], bool]]:
    """Run the programs, and yield a function that returns whether they accept requests.

    Args:
        folder: Folder for their files; their output is in `log`.
        engine: Port of the engine, which also simulates Secret Manager.
        port: Port for requests that pass the callout.
        config: Returns the callout's configuration, with the address of the store.
        plain: Port for requests without the callout, if any.
        metrics: Port of the callout's metrics; None for any free port.
    """
    store, grpc, health, admin, free = free_ports(5)
    metrics = metrics or free
    settings = config(f"127.0.0.1:{store}")
    (folder / "config.yaml").write_text(json.dumps(settings))
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
        clusters = page_of(f"http://127.0.0.1:{admin}/clusters")
        counts = page_of(f"http://127.0.0.1:{metrics}/metrics")
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


async def until(is_ready: Callable[[], bool]) -> None:
    """Wait until the programs accept requests.

    Raises:
        CommandError: They do not within 20 seconds.
    """
    limit = time.monotonic() + _START_SECONDS
    while not await asyncio.to_thread(is_ready):
        if time.monotonic() > limit:
            raise CommandError(f"the callout does not accept requests after {_START_SECONDS:.0f} s")
        await asyncio.sleep(0.05)


def page_of(url: str) -> str:
    """Return the text of a page; empty if nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own processes
            return answer.read().decode()
    except OSError:
        return ""
