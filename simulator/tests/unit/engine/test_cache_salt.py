"""Requests with different salts share no prefix; those with the same one do."""

import re
from typing import Any

import pytest

from simulator.engine.engine import Engine
from simulator.engine.kv_cache import salt_of
from simulator.tests.unit.dialects.support import served
from simulator.tests.unit.dialects.test_sglang import ARGUMENTS
from simulator.tests.unit.engine.support import deployment, serve

LONG = "word " * 200
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": LONG}], "max_tokens": 2},
    "/v1/completions": {"prompt": LONG, "max_tokens": 2},
    "/v1/responses": {"input": LONG, "max_output_tokens": 2},
}
POOLING: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": LONG},
    "/v1/score": {"text_1": LONG, "text_2": [LONG]},
    "/v1/rerank": {"query": LONG, "documents": [LONG]},
}
SALTS = [None, "red", "red", "blue", None]
IS_HIT = [False, False, True, False, True]


def hits(name: str, path: str, body: dict[str, Any]) -> Any:
    """Return a use of a server that tells for each of `SALTS` whether it had cached tokens."""

    async def use(client: Any, _engine: Engine) -> list[bool]:
        found: list[bool] = []
        before = 0.0
        for salt in SALTS:
            sent = body if salt is None else {**body, "cache_salt": salt}
            answer = await client.post(path, json=sent)
            assert answer.status == 200, await answer.text()
            page = await (await client.get("/metrics")).text()
            lines = re.findall(rf"^{name}{{[^}}]*}} (\S+)$", page, re.MULTILINE)
            now = sum(map(float, lines))
            found.append(now - before >= 100)
            before = now
        return found

    return use


@pytest.mark.parametrize("path", BODIES)
def test_two_salts_share_no_prefix_in_vllm_and_one_does(path: str) -> None:
    use = hits("vllm:prefix_cache_hits_total", path, BODIES[path])
    assert serve(deployment("--enable-prefix-caching"), use) == IS_HIT


@pytest.mark.parametrize("path", POOLING)
def test_two_salts_share_no_prefix_of_a_pooling_model(path: str) -> None:
    flags = ("--runner", "pooling", "--enable-prefix-caching")
    pooling = deployment(*flags, model="Qwen/Qwen3-Embedding-0.6B")
    found = serve(pooling, hits("vllm:prefix_cache_hits_total", path, POOLING[path]))
    assert (found[2], found[4]) == (True, True)
    assert found[1] == found[0]
    assert found[3] == found[0]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_two_salts_share_no_prefix_in_sglang_and_one_does(path: str) -> None:
    use = hits("sglang:cached_tokens_total", path, BODIES[path])
    assert served("sglang", ARGUMENTS, use) == IS_HIT


@pytest.mark.parametrize("salt", ["", 7, ["a"]])
def test_a_salt_of_vllm_must_be_a_text(salt: Any) -> None:
    async def use(client: Any, _engine: Engine) -> int:
        body = {"prompt": "x", "max_tokens": 1, "cache_salt": salt}
        return (await client.post("/v1/completions", json=body)).status

    assert serve(deployment(), use) == 400


def test_a_salt_and_an_adapter_separate_requests_and_neither_leaves_the_blocks_as_they_were():
    assert salt_of(None) == 0
    assert salt_of("sql") == salt_of("sql", "")
    found = {salt_of(adapter, salt) for adapter in (None, "a", "b") for salt in ("", "a", "b")}
    assert len(found) == 9
