"""Servers of the other engines, in this process and in replay time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from simulator.dialects import sglang, tgi, triton
from simulator.tests.unit.engine.support import ReplayClock

ON_H100 = {"GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h100-80gb", "GKE_INFERENCE_SIM_POD": "pod-1"}
CHAT = [{"role": "user", "content": "How does a batch work?"}]
PERSON: Any = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
    "required": ["name", "age"],
}
BOOK: Any = {
    "type": "function",
    "function": {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "nights": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
_ENGINES = {"sglang": sglang, "tgi": tgi, "triton": triton}


def served(
    engine: str,
    argv: list[str],
    use: Callable[[TestClient[Any, Any], Any], Awaitable[Any]],
    **more: str,
) -> Any:
    """Run `use` against a server of an engine."""
    module: Any = _ENGINES[engine]

    async def main() -> Any:
        settings = module.settle(argv, ON_H100 | more)
        made, server = module.make(settings)
        made.clock = ReplayClock()
        async with TestClient(TestServer(server.app)) as client:
            return await use(client, made)

    return asyncio.run(main())


def asked(engine: str, argv: list[str], *requests: Any, **more: str) -> list[tuple[int, Any]]:
    """Send requests, each a path or a path with a body; return statuses and bodies."""

    async def use(client: Any, _engine: Any) -> list[tuple[int, Any]]:
        out: list[tuple[int, Any]] = []
        for request in requests:
            path, body = request if isinstance(request, tuple) else (request, None)
            answer = await (client.get(path) if body is None else client.post(path, json=body))
            text = await answer.text()
            is_json = answer.content_type == "application/json"
            out.append((answer.status, json.loads(text) if is_json else text))
        return out

    return served(engine, argv, use, **more)


def events(text: str) -> list[Any]:
    """Return the events of a stream without its end, which must be there."""
    lines = text.strip().split("\n\n")
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def value(page: str, series: str) -> float:
    """Return the value of one series of a metrics page."""
    (line,) = [line for line in page.splitlines() if line.startswith(series + " ")]
    return float(line.rsplit(" ", 1)[1])
