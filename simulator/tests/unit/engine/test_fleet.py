"""Many replicas in one process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError

from simulator.engine.core import EngineCore
from simulator.engine.request import Request
from simulator.server.bodies import text
from simulator.server.fleet import Fleet, FleetConfig
from twin.host.ports import free_port

ASK = {"prompt": "word " * 200, "max_tokens": 100, "ignore_eos": True}


def config(*replicas: dict[str, Any], **more: Any) -> FleetConfig:
    entries = [
        {
            "name": f"r{number}",
            "port": free_port(),
            "accelerator": "nvidia-h100-80gb",
            "flags": ["llama-3.1-8b"],
            **entry,
        }
        for number, entry in enumerate(replicas)
    ]
    return FleetConfig.model_validate({"replicas": entries, **more})


def with_fleet(
    made: FleetConfig, use: Callable[[Fleet, aiohttp.ClientSession], Awaitable[Any]]
) -> Any:
    async def main() -> Any:
        fleet = Fleet(made)
        await fleet.start()
        try:
            async with aiohttp.ClientSession() as session:
                return await use(fleet, session)
        finally:
            await fleet.stop()

    return asyncio.run(main())


def url(fleet: Fleet, name: str, path: str) -> str:
    return str(fleet.replicas[name].status()["url"]) + path


async def ask(session: aiohttp.ClientSession, fleet: Fleet, name: str) -> Any:
    async with session.post(url(fleet, name, "/v1/completions"), json=ASK) as answer:
        assert answer.status == 200
        return {**await answer.json(), "headers": answer.headers}


async def sample(session: aiohttp.ClientSession, fleet: Fleet, name: str, metric: str) -> float:
    async with session.get(url(fleet, name, "/metrics")) as answer:
        rows = [row for row in (await answer.text()).splitlines() if row.startswith(metric + "{")]
    return float(rows[0].rsplit(" ", 1)[1])


def test_each_replica_has_its_own_hardware_requests_and_metrics():
    async def use(fleet: Fleet, session: aiohttp.ClientSession) -> list[float]:
        await ask(session, fleet, "r0")
        return [
            await sample(session, fleet, name, "vllm:generation_tokens_total")
            for name in ("r0", "r1")
        ]

    made = config({}, {"accelerator": "nvidia-l4", "flags": ["qwen3-4b"]})
    assert with_fleet(made, use) == [100.0, 0.0]


@pytest.mark.parametrize("speed", [1.0, 20.0])
def test_latency_metrics_are_in_engine_seconds_whatever_the_speed(speed: float):
    async def use(fleet: Fleet, session: aiohttp.ClientSession) -> tuple[float, str | None]:
        answer = await ask(session, fleet, "r0")
        latency = await sample(session, fleet, "r0", "vllm:e2e_request_latency_seconds_sum")
        return latency, answer["headers"].get("x-gke-inference-speed")

    made = config({}, speed=speed)
    core = Fleet(made).replicas["r0"].deployment
    latency, header = with_fleet(made, use)
    alone = alone_seconds(core)
    assert latency == pytest.approx(alone, rel=1e-6)
    assert header == (None if speed == 1 else "20")


def alone_seconds(deployment: Any) -> float:
    """Return what the request takes on an idle engine, from the core itself."""
    core = EngineCore(deployment)
    tokens = text.tokenize(str(ASK["prompt"]))
    core.submit(Request("1", tokens, 100, 0.0, output=[1] * 100), 0.0)
    core.advance(1e6)
    return core.metrics.end_to_end.total()


def test_a_slow_replica_takes_longer():
    async def use(fleet: Fleet, session: aiohttp.ClientSession) -> list[float]:
        fleet.replicas["r1"].slow_down(3)
        for name in ("r0", "r1"):
            await ask(session, fleet, name)
        return [
            await sample(session, fleet, name, "vllm:e2e_request_latency_seconds_sum")
            for name in ("r0", "r1")
        ]

    healthy, slow = with_fleet(config({}, {}, speed=20), use)
    assert slow == pytest.approx(3 * healthy, rel=1e-6)


def test_a_killed_replica_breaks_its_connections_and_starts_again_cold():
    async def use(fleet: Fleet, session: aiohttp.ClientSession) -> list[Any]:
        body = {**ASK, "max_tokens": 100_000, "stream": True}
        out: list[Any] = []
        async with session.post(url(fleet, "r0", "/v1/completions"), json=body) as answer:
            await answer.content.readline()
            await fleet.replicas["r0"].kill()
            with pytest.raises(aiohttp.ClientError):
                await answer.read()
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(url(fleet, "r0", "/health"))
        await fleet.replicas["r0"].start()
        await ask(session, fleet, "r0")
        out.append(await sample(session, fleet, "r0", "vllm:generation_tokens_total"))
        out.append(await sample(session, fleet, "r0", "vllm:prefix_cache_hits_total"))
        return out

    assert with_fleet(config({}), use) == [100.0, 0.0]


def test_the_control_page_starts_stops_and_slows():
    port = free_port()

    async def use(fleet: Fleet, session: aiohttp.ClientSession) -> list[Any]:
        base = f"http://127.0.0.1:{port}/replicas"
        out: list[Any] = []
        for path, body in (("r0/stop", {}), ("r0/start", {}), ("r0/slow", {"factor": 2})):
            async with session.post(f"{base}/{path}", json=body) as answer:
                status = await answer.json()
                out.append((answer.status, status["running"], status["slowdown"]))
        for path, body in (("r0/slow", {"factor": -1}), ("r9/stop", {})):
            async with session.post(f"{base}/{path}", json=body) as answer:
                out.append(answer.status)
        async with session.get(base) as answer:
            page = await answer.json()
        return [*out, page["speed"], [replica["name"] for replica in page["replicas"]]]

    made = config({}, speed=4, control={"port": port})
    assert with_fleet(made, use) == [
        (200, False, 1.0),
        (200, True, 1.0),
        (200, True, 2.0),
        400,
        404,
        4.0,
        ["r0"],
    ]


@pytest.mark.parametrize(
    ("replicas", "more", "problem"),
    [
        (({"name": "a"}, {"name": "a"}), {}, "its own name"),
        (({"port": 8000}, {"port": 8000}), {}, "its own address and port"),
        (({},), {"speed": 0}, "speed"),
        (({"slowdown": 0},), {}, "slowdown"),
        ((), {}, "replicas"),
    ],
)
def test_a_wrong_configuration_is_refused(
    replicas: tuple[dict[str, Any], ...], more: dict[str, Any], problem: str
):
    with pytest.raises(ValidationError, match=problem):
        config(*replicas, **more)
