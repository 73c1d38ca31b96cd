"""Tiers of KV cache below the accelerator's memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from gke_inference.intent.settings import KvOffload, SharedTier
from gke_inference.serving.kv.offload import offload_flag
from simulator.engine.core import EngineCore
from simulator.engine.kv_tiers import Folder, KvTiers
from simulator.engine.request import Request
from simulator.engine.settings import EngineError, deploy
from twin.engines.vllm_flags import parse
from workloads.engine.caches import shrink
from workloads.engine.spec import KV_SHARED

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
SMALL = "--num-gpu-blocks-override=1100"  # 17,600 tokens
TOKENS = 8000
BLOCK_BYTES = 16 * 131_072
FIRST, OTHER, LAST = range(TOKENS), range(50_000, 66_000), range(70_000, 86_000)


def engine(*flags: str, share: Path | None = None, **more: Any) -> EngineCore:
    environment = {
        "GKE_INFERENCE_SIM_ACCELERATOR": more.pop("chip", "nvidia-l4"),
        "GKE_INFERENCE_SIM_MOUNTS": json.dumps({} if share is None else {KV_SHARED: str(share)}),
        **({} if (seed := more.pop("seed", None)) is None else {"PYTHONHASHSEED": seed}),
    }
    return EngineCore(deploy(parse([MODEL, "--max-model-len=17000", *flags]), environment), **more)


def memory(gib: int = 8) -> str:
    return offload_flag(KvOffload(cpu_gib=gib), f"{KV_SHARED}/llama")


def ask(core: EngineCore, tokens: range, begun: float) -> Request:
    """Ask an idle engine for two tokens, and return the request when it has them."""
    request = Request("r", tokens, 2, begun, output=[1, 2])
    core.submit(request, begun)
    while (moment := core.next_event()) is not None:
        core.advance(moment)
    return request


def again(core: EngineCore) -> Request:
    """Ask for a prompt, for others that take its place, and for the prompt once more."""
    for number, tokens in enumerate((FIRST, OTHER, LAST)):
        ask(core, tokens, 100.0 * number)
    return ask(core, FIRST, 300.0)


def ttft(request: Request) -> float:
    assert request.first_token is not None
    return request.first_token - request.arrival


def value(core: EngineCore, name: str) -> float:
    lines = core.metrics.render().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])


def test_an_evicted_prompt_is_computed_again_without_a_tier_and_read_with_one():
    computed, read = again(engine(SMALL)), again(engine(SMALL, memory()))
    assert (computed.cached_tokens, computed.loaded_tokens) == (0, 0)
    assert (read.cached_tokens, read.loaded_tokens) == (0, 7984)  # the last block is computed
    assert ttft(read) < ttft(computed) / 10


def test_a_read_takes_the_bytes_over_the_link_and_a_step():
    core = engine(SMALL, memory())
    read = again(core)
    seconds = 499 * BLOCK_BYTES / (32e9 * 0.52)
    last_block = ttft(ask(engine(SMALL), range(16), 0.0))
    # the step after the read also reads the whole context, which is 1 GB at 225 GB/s
    assert ttft(read) == pytest.approx(seconds + 0.002 + last_block + 0.0047, rel=0.01)


def test_metrics_count_what_the_accelerators_memory_lacks_as_vllm_does():
    core = engine(SMALL, memory())
    again(core)
    assert value(core, "vllm:external_prefix_cache_queries_total") == 2 * (TOKENS + 16_000)
    assert value(core, "vllm:external_prefix_cache_hits_total") == 7984
    assert value(core, "vllm:kv_offload_load_bytes_total") == 499 * BLOCK_BYTES
    source = 'vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="%s",source="host"}'
    name = source % MODEL
    page = core.metrics.render()
    key = name if name in page else 'source="host"'
    assert any(key in line and line.endswith(" 7984.0") for line in page.splitlines())


def test_memory_evicts_what_was_used_least_recently():
    core = engine(SMALL, memory(1))  # 512 blocks
    assert again(core).loaded_tokens == 0


def test_a_restart_empties_memory_and_leaves_the_share_to_other_replicas(tmp_path: Path):
    flag = offload_flag(KvOffload(cpu_gib=8, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    ask(engine(flag, share=tmp_path), FIRST, 0.0)
    other = engine(flag, share=tmp_path)
    found = ask(other, FIRST, 0.0)
    assert found.loaded_tokens == 7984
    assert found.load is not None
    assert found.load.source == "disk"
    assert ask(engine(memory()), FIRST, 0.0).loaded_tokens == 0
    # now in memory as well, from where it is faster
    ask(other, OTHER, 100.0)
    assert other.scheduler.tiers is not None
    assert other.scheduler.tiers.find(found.hashes[:499]).source == "host"


def test_a_share_of_one_tebibyte_is_slower_than_an_l4_computes(tmp_path: Path):
    flag = offload_flag(KvOffload(cpu_gib=8, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    ask(engine(flag, share=tmp_path), FIRST, 0.0)
    found = ask(engine(flag, share=tmp_path), FIRST, 0.0)
    assert ttft(found) == pytest.approx(499 * BLOCK_BYTES / (260 * 2**20), rel=0.05)
    assert ttft(found) > ttft(ask(engine(), FIRST, 0.0))


def test_deleted_files_are_computed_again(tmp_path: Path):
    flag = offload_flag(KvOffload(cpu_gib=8, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    ask(engine(flag, share=tmp_path), FIRST, 0.0)
    assert shrink(tmp_path, 250 * BLOCK_BYTES) == 500 - 225
    assert ask(engine(flag, share=tmp_path), FIRST, 0.0).loaded_tokens < 7984


def test_engines_share_blocks_by_xxhash_only_with_a_common_seed(tmp_path: Path):
    """As vLLM 0.32.0, which draws the seed of a hash that is not cryptographic for each process."""
    flag = offload_flag(KvOffload(cpu_gib=8, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    flags = (flag, "--prefix-caching-hash-algo=xxhash")
    found = {
        seed: [
            ask(engine(*flags, share=tmp_path, seed=seed), FIRST, 0.0).loaded_tokens
            for _ in range(2)
        ]
        for seed in (None, "0")
    }
    assert found == {None: [0, 0], "0": [0, 7984]}


def test_another_model_reads_nothing_from_the_same_share(tmp_path: Path):
    flag = offload_flag(KvOffload(cpu_gib=8, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    ask(engine(flag, share=tmp_path), FIRST, 0.0)
    halved = engine(flag, "--kv-cache-dtype=fp8", share=tmp_path)
    assert ask(halved, FIRST, 0.0).loaded_tokens == 0


def test_computing_steps_together_changes_nothing():
    one, all_ = (engine(SMALL, memory(), skip_ahead=each) for each in (True, False))
    for core in (one, all_):
        again(core)
    first, second = (ask(core, range(4000), 400.0) for core in (one, all_))
    assert (first.first_token, first.last_token) == (second.first_token, second.last_token)


def test_other_requests_decode_while_a_prompt_is_read(tmp_path: Path):
    flag = offload_flag(KvOffload(cpu_gib=8, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    ask(engine(flag, share=tmp_path), FIRST, 0.0)
    core = engine(flag, share=tmp_path)
    steady = Request("s", range(90_000, 90_016), 400, 0.0, output=[7] * 400)
    core.submit(steady, 0.0)
    read = Request("t", FIRST, 2, 2.0, output=[1, 2])
    core.submit(read, 2.0)
    before = steady.generated
    core.advance(5.0)  # 1 GB at 273 MB/s takes 3.8 s
    assert read.loading
    assert steady.generated > before + 30
    core.advance(7.0)
    assert (read.loading, read.loaded_tokens) == (False, 7984)


def test_reads_wait_for_each_other():
    tiers = KvTiers(100, 10**9, 1e10, [])
    for block in range(4):
        tiers.store(block)
    first, second = tiers.find([0, 1]), tiers.find([2, 3])
    assert tiers.load(first, 0.0) == pytest.approx(0.202)
    assert tiers.load(second, 0.0) == pytest.approx(0.402)


def test_a_folder_keeps_a_block_once(tmp_path: Path):
    folder = Folder(tmp_path, 1e9, 4096)
    assert (folder.store(-5), folder.store(-5)) == (True, False)
    (file,) = tmp_path.rglob("*.bin")
    assert (file.stat().st_size, file.name) == (4096, "fffffffffffffffb.bin")


def test_the_native_flag_is_the_same_tier():
    native = engine(SMALL, "--kv-offloading-size=8")
    assert again(native).loaded_tokens == 7984


@pytest.mark.parametrize(
    ("chip", "extra", "message"),
    [
        ("tpu-v6e-slice", {"cpu_bytes_to_use": 10**9}, "only supported on CUDA-alike and XPU"),
        ("nvidia-l4", {}, "cpu_bytes_to_use must be specified"),
        (
            "nvidia-l4",
            {
                "cpu_bytes_to_use": 10**9,
                "secondary_tiers": [{"type": "tape"}],
                "spec_name": "TieringOffloadingSpec",
            },
            "Unknown secondary tier type: 'tape'",
        ),
    ],
)
def test_vllm_would_not_start(chip: str, extra: dict[str, Any], message: str):
    config = {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": extra}
    with pytest.raises(EngineError, match=message):
        engine(f"--kv-transfer-config={json.dumps(config)}", chip=chip)


@pytest.mark.parametrize(
    "flags",
    [
        ['--kv-transfer-config={"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'],
        ['--kv-transfer-config={"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}'],
        ["--kv-offloading-size=8", "--kv-offloading-backend=lmcache"],
    ],
)
def test_vllm_does_not_start_with_lmcache(flags: list[str]):
    with pytest.raises(EngineError, match="No module named 'lmcache'"):
        engine(*flags)


def test_prompts_that_hold_their_blocks_start_before_one_that_waits_for_room(tmp_path: Path):
    """All prompts end although those that were read hold the room that a preempted one needs."""
    flag = offload_flag(KvOffload(cpu_gib=1, shared=SharedTier(gib=100)), f"{KV_SHARED}/llama")
    core = engine(SMALL, flag, share=tmp_path)
    asked = [
        Request(f"{number}", range(1000 * (number % 6), 1000 * (number % 6) + 5000), 600, 0.0)
        for number in range(24)
    ]
    for request in asked:
        request.output = [7] * 600
        core.submit(request, 0.0)
    while (moment := core.next_event()) is not None:
        core.advance(moment)
    assert all(request.finished is not None for request in asked)
    assert any(request.preemptions for request in asked)
    assert any(request.loaded_tokens for request in asked)
