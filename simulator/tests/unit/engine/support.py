"""Engines for tests: deployments by flags, and servers in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from simulator.engine.engine import Engine
from simulator.engine.settings import Deployment, deploy
from simulator.server.server import ApiServer
from twin.engines.vllm_flags import parse

MODEL = "llama-3.1-8b"
ON_H100 = {"GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h100-80gb", "GKE_INFERENCE_SIM_POD": "pod-1"}


def deployment(*flags: str, model: str = MODEL, **environment: str) -> Deployment:
    return deploy(parse([model, *flags]), ON_H100 | environment)


class ReplayClock:
    """Time that passes at the requested speed."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    async def sleep_until(self, moment: float) -> None:
        self.time = max(self.time, moment)
        await asyncio.sleep(0)

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        await self.sleep_until(moment)


def serve(made: Deployment, use: Callable[[TestClient[Any, Any], Engine], Awaitable[Any]]) -> Any:
    """Run `use` against a server of a deployment, in replay time."""

    async def main() -> Any:
        engine = Engine(made, ReplayClock())
        async with TestClient(TestServer(ApiServer(engine).app)) as client:
            return await use(client, engine)

    return asyncio.run(main())
