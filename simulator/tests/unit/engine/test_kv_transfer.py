"""Prefill on one simulated engine and decode on another."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

from planner.fit.chips import HOST_NETWORKS
from simulator.engine.engine import Engine
from simulator.engine.kv_transfer import (
    KEPT_SECONDS,
    READ_LATENCY_SECONDS,
    KvTransfer,
    TransferError,
)
from simulator.engine.request import RemoteKv
from simulator.server.server import ApiServer
from simulator.tests.unit.engine.support import ReplayClock, deployment
from twin.host.ports import free_port

CONFIG = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"%s}'
RECOMPUTES = CONFIG % ',"kv_load_failure_policy":"recompute"'
PROMPT = "word " * 400
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


class InProcess:
    """The side channel of one other engine, without a network."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.dies_after: str | None = None
        self.verbs: list[str] = []

    async def call(self, remote: RemoteKv, verb: str) -> int:
        self.verbs.append(verb)
        request = None if self.engine is None else self.engine.kv.kept(remote.request_id)
        if request is None or self.engine is None:
            raise TransferError("gone")
        if verb == "done":
            self.engine.release(request)
        if verb == self.dies_after:
            self.engine = None
        return 1


Client = TestClient[Any, Any]
Use = Callable[[Client, Client, Engine, Engine, InProcess], Awaitable[Any]]


def pair(use: Use, flag: str = RECOMPUTES) -> Any:
    """Run `use` against a prefilling and a decoding engine."""

    async def main() -> Any:
        peers, clock = InProcess(), ReplayClock()
        made = deployment(flag)
        prefill, decode = Engine(made, clock), Engine(made, clock, peers)
        peers.engine = prefill
        async with (
            TestClient(TestServer(ApiServer(prefill).app)) as one,
            TestClient(TestServer(ApiServer(decode).app)) as other,
        ):
            return await use(one, other, prefill, decode, peers)

    return asyncio.run(main())


async def ask(client: Client, **fields: Any) -> dict[str, Any]:
    body = {"prompt": PROMPT, "max_tokens": 8, "ignore_eos": True, **fields}
    answer = await client.post("/v1/completions", json=body)
    return {"status": answer.status, **await answer.json()}


async def prefilled(client: Client) -> dict[str, Any]:
    return await ask(client, max_tokens=1, kv_transfer_params=REMOTE_DECODE)


async def metric(client: Client, name: str) -> float:
    lines = (await (await client.get("/metrics")).text()).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_decode_reads_what_prefill_computed_and_computes_one_token_of_the_prompt():
    async def use(one, other, prefill, decode, peers):
        params = (await prefilled(one))["kv_transfer_params"]
        assert params["do_remote_prefill"] is True
        answer = await ask(other, kv_transfer_params=params)
        assert answer["usage"]["completion_tokens"] == 8
        tokens = answer["usage"]["prompt_tokens"]
        assert len(params["remote_block_ids"]) == prefill.scheduler.cache.blocks_for(tokens)
        source = 'vllm:prompt_tokens_by_source_total{engine="0",model_name="llama-3.1-8b",source="'
        moved = await metric(other, source + "external_kv_transfer")
        assert moved == tokens
        assert await metric(other, source + "local_compute") == 0
        assert await metric(other, "vllm:nixl_bytes_transferred_sum") == decode.kv.bytes_of(tokens)
        assert peers.verbs == ["read", "done"]
        return prefill, decode

    prefill, decode = pair(use)
    assert prefill.scheduler.cache.usage == 0
    assert decode.scheduler.cache.usage == 0


def test_answer_is_the_same_as_without_disaggregation():
    async def use(one, other, *_):
        params = (await prefilled(one))["kv_transfer_params"]
        split = await ask(other, kv_transfer_params=params)
        whole = await ask(one)
        assert split["choices"] == whole["choices"]

    pair(use)


def test_blocks_stay_until_they_are_read_or_their_time_is_up():
    async def use(one, other, prefill, *_):
        params = (await prefilled(one))["kv_transfer_params"]
        held = prefill.scheduler.cache.usage
        assert held > 0
        prefill.clock.time += KEPT_SECONDS + 1
        await prefilled(one)
        assert prefill.scheduler.cache.usage == pytest.approx(held)
        assert await metric(one, "vllm:nixl_num_kv_expired_reqs_total") == 1
        assert (await ask(other, kv_transfer_params=params))["status"] == 200

    pair(use)


@pytest.mark.parametrize("died", ["before", "read"])
def test_prompt_is_computed_again_when_the_prefilling_engine_dies(died):
    async def use(one, other, prefill, decode, peers):
        params = (await prefilled(one))["kv_transfer_params"]
        if died == "before":
            peers.engine = None
        else:
            peers.dies_after = died
        answer = await ask(other, kv_transfer_params=params)
        assert answer["usage"]["completion_tokens"] == 8
        assert await metric(other, "vllm:nixl_num_failed_transfers_total") == 1
        assert await metric(other, "vllm:prompt_tokens_total") == answer["usage"]["prompt_tokens"]

    pair(use)


def test_request_fails_when_the_policy_is_to_fail():
    async def use(one, other, _prefill, decode, peers):
        params = (await prefilled(one))["kv_transfer_params"]
        peers.engine = None
        assert (await ask(other, kv_transfer_params=params))["status"] == 500
        return decode

    assert pair(use, CONFIG % "").scheduler.cache.usage == 0


@pytest.mark.parametrize(
    "params", [{"do_remote_prefill": True}, {"do_remote_prefill": True, "remote_host": "x"}, "x", 1]
)
def test_parameters_that_say_too_little_are_ignored(params):
    async def use(_one, other, *_):
        assert (await ask(other, kv_transfer_params=params))["status"] == 200
        assert await metric(other, "vllm:nixl_bytes_transferred_count") == 0

    pair(use)


def test_engine_without_a_connector_keeps_nothing():
    engine = KvTransfer(deployment())
    assert engine.wish({"do_remote_decode": True}) == (None, False)


def test_reads_take_the_network_in_turn():
    transfer = KvTransfer(deployment(RECOMPUTES))
    size = transfer.bytes_of(4096)
    speed = HOST_NETWORKS["tcp"].gbps * 1e9 / 8
    first, second = (transfer.arrival(size, 10.0, 1) for _ in range(2))
    assert first == pytest.approx(10 + size / speed + READ_LATENCY_SECONDS)
    assert second - first == pytest.approx(size / speed)


def test_side_channel_answers_for_kept_prompts_only(monkeypatch):
    port = free_port()
    monkeypatch.setenv("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1")
    monkeypatch.setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", str(port))

    async def main() -> None:
        engine = Engine(deployment(RECOMPUTES), ReplayClock())
        await engine.kv.serve("127.0.0.1", engine.release)
        try:
            async with TestClient(TestServer(ApiServer(engine).app)) as client:
                params = (await prefilled(client))["kv_transfer_params"]
            assert (params["remote_host"], params["remote_port"]) == ("127.0.0.1", port)
            base = f"http://127.0.0.1:{port}"
            async with ClientSession() as session:
                for path, status in (
                    ("/read/nobody-1", 404),
                    (f"/read/{params['remote_request_id']}", 200),
                    (f"/done/{params['remote_request_id']}", 200),
                    (f"/read/{params['remote_request_id']}", 404),
                ):
                    assert (await session.post(base + path)).status == status
        finally:
            await engine.kv.close()
        assert engine.scheduler.cache.usage == 0

    asyncio.run(main())
