"""The paged KV cache and its prefix caching."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.kv_cache import KvCache, block_hashes


def hold(cache: KvCache, tokens: list[int]) -> tuple[list[int], int]:
    """Hold a prompt's blocks as the scheduler does; return them and the cached tokens."""
    hashes = block_hashes(tokens, cache.block_size)
    cached = cache.cached_prefix(hashes, len(tokens))
    blocks = cache.take_prefix(hashes, cached)
    blocks += cache.allocate(cache.blocks_for(len(tokens)) - cached) or []
    for number, block_hash in zip(blocks, hashes, strict=False):
        cache.publish(number, block_hash)
    return blocks, cached * cache.block_size


def test_a_prompt_seen_before_is_found_in_whole_blocks():
    cache = KvCache(blocks=16, block_size=4)
    first, cached = hold(cache, list(range(10)))
    assert cached == 0
    cache.release(first)
    assert hold(cache, [*range(8), 99, 100])[1] == 8


def test_a_different_first_block_shares_nothing():
    cache = KvCache(blocks=16, block_size=4)
    hold(cache, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert hold(cache, [0, 2, 3, 4, 5, 6, 7, 8, 9])[1] == 0


def test_a_prompt_is_never_taken_whole_from_the_cache():
    cache = KvCache(blocks=16, block_size=4)
    hold(cache, list(range(8)))
    assert hold(cache, list(range(8)))[1] == 4


def test_shared_blocks_are_held_once_and_freed_by_the_last():
    cache = KvCache(blocks=8, block_size=4)
    first, _ = hold(cache, list(range(9)))
    second, _ = hold(cache, list(range(9)))
    assert first[:2] == second[:2]
    assert cache.free_blocks == 4
    cache.release(first)
    assert cache.free_blocks == 5
    cache.release(second)
    assert cache.usage == 0


def test_the_least_recently_freed_block_is_lost_first():
    cache = KvCache(blocks=4, block_size=4)
    old, _ = hold(cache, [1] * 5)
    cache.release(old)
    new, _ = hold(cache, [2] * 5)
    cache.release(new)
    cache.release(cache.allocate(3) or [])
    assert cache.cached_prefix(block_hashes([2] * 5, 4), 5) == 1
    assert cache.cached_prefix(block_hashes([1] * 5, 4), 5) == 0


def test_an_adapter_has_prefixes_of_its_own():
    assert block_hashes([1, 2, 3, 4], 4, salt=1) != block_hashes([1, 2, 3, 4], 4, salt=2)


def test_too_large_a_demand_takes_nothing():
    cache = KvCache(blocks=2, block_size=4)
    assert cache.allocate(3) is None
    assert cache.free_blocks == 2


def test_without_prefix_caching_nothing_is_found():
    cache = KvCache(blocks=8, block_size=4, prefix_caching=False)
    hold(cache, list(range(9)))
    assert hold(cache, list(range(9)))[1] == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), max_size=30))
def test_blocks_are_neither_lost_nor_made(prompts: list[tuple[int, int]]):
    cache = KvCache(blocks=24, block_size=4)
    held: list[list[int]] = []
    for seed, length in prompts:
        if cache.blocks_for(length) > cache.free_blocks:
            for blocks in held:
                cache.release(blocks)
            held.clear()
        held.append(hold(cache, [seed] * length)[0])
        assert len({n for blocks in held for n in blocks}) == cache.blocks - cache.free_blocks
    for blocks in held:
        cache.release(blocks)
    assert cache.free_blocks == cache.blocks
