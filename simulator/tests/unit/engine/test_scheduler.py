"""Continuous batching."""

from typing import Any

from simulator.engine.kv_cache import KvCache
from simulator.engine.request import FinishReason, Request
from simulator.engine.scheduler import Scheduler


def scheduler(blocks: int = 100, tokens: int = 64, sequences: int = 8, **more: Any) -> Scheduler:
    return Scheduler(KvCache(blocks, 4), tokens, sequences, **more)


def request(name: str, prompt: int, most: int = 4, **more: Any) -> Request:
    tokens = [hash(name) % 1000 + i for i in range(prompt)]
    fields: dict[str, Any] = {"max_tokens": most, "arrival": 0.0, "output": [7] * most, **more}
    return Request(name, tokens, **fields)


def run(sched: Scheduler, steps: int = 200) -> int:
    """Step until nothing is left; return how many steps it took."""
    for count in range(steps):
        step = sched.schedule()
        if not step.work and not step.preempted:
            return count
        sched.complete(step)
    raise AssertionError(f"not done after {steps} steps")


def test_the_load_of_a_step_separates_the_context_of_prompts():
    sched = scheduler()
    sched.add(request("a", 10))
    sched.complete(sched.schedule())
    sched.add(request("b", 20))
    load = sched.schedule().load()
    assert (load.prefill_tokens, load.decode_tokens) == (20, 1)
    assert (load.context_tokens, load.prompt_context) == (11 + 20, 20)
    assert load.decoding.context_tokens == 11


def test_a_request_is_prefilled_and_then_gets_a_token_a_step():
    sched = scheduler()
    one = request("a", 10, 4)
    sched.add(one)
    step = sched.schedule()
    assert (step.prefill_tokens, step.decode_tokens) == (10, 0)
    assert sched.complete(step) == [one]
    step = sched.schedule()
    assert (step.prefill_tokens, step.decode_tokens) == (0, 1)
    sched.complete(step)
    assert run(sched) == 2
    assert one.finished is FinishReason.LENGTH
    assert sched.cache.usage == 0


def test_a_text_that_ends_by_itself_stops_before_its_limit():
    sched = scheduler()
    one = request("a", 4, 10, output=[1, 2, 3])
    sched.add(one)
    run(sched)
    assert (one.generated, one.finished) == (3, FinishReason.STOP)


def test_a_long_prompt_is_computed_in_chunks_beside_running_requests():
    sched = scheduler(tokens=16)
    short, long = request("s", 4, 20), request("l", 40)
    sched.add(short)
    sched.complete(sched.schedule())
    sched.add(long)
    step = sched.schedule()
    assert (step.decode_tokens, step.prefill_tokens) == (1, 15)
    assert sched.complete(step) == [short]
    assert long.computed == 15


def test_no_more_sequences_run_than_allowed():
    sched = scheduler(sequences=2)
    for name in "abc":
        sched.add(request(name, 4))
    sched.complete(sched.schedule())
    assert (len(sched.running), len(sched.waiting)) == (2, 1)
    run(sched)
    assert not sched.running


def test_the_request_that_came_last_is_preempted_when_blocks_run_out():
    sched = scheduler(blocks=6)
    first, second = request("a", 8, 12), request("b", 8, 12)
    sched.add(first)
    sched.add(second)
    run(sched)
    assert (first.preemptions, second.preemptions > 0) == (0, True)
    assert {first.finished, second.finished} == {FinishReason.LENGTH}
    assert sched.cache.usage == 0


def test_a_prompt_that_finds_no_blocks_waits():
    sched = scheduler(blocks=4)
    sched.add(request("a", 12))
    sched.add(request("b", 12))
    sched.complete(sched.schedule())
    assert len(sched.waiting) == 1
    run(sched)
    assert sched.cache.usage == 0


def test_a_shared_prefix_is_not_computed_again():
    sched = scheduler()
    first = Request("1", [5] * 17, 1, 0.0, output=[1])
    second = Request("2", [5] * 17, 1, 0.0, output=[1])
    sched.add(first)
    sched.complete(sched.schedule())
    sched.add(second)
    assert sched.schedule().prefill_tokens == 1
    assert second.cached_tokens == 16
    assert (sched.cache.stats.queries, sched.cache.stats.hits) == (34, 16)


def test_the_answer_is_found_again_when_it_is_part_of_the_next_prompt():
    sched = scheduler()
    first = Request("1", [1, 2, 3, 4], 8, 0.0, output=[11, 12, 13, 14, 15, 16, 17, 18])
    sched.add(first)
    run(sched)
    follow = Request("2", [1, 2, 3, 4, 11, 12, 13, 14, 9], 1, 0.0, output=[1])
    sched.add(follow)
    sched.schedule()
    assert follow.cached_tokens == 8


def test_no_more_adapters_run_than_have_slots_and_others_pass_by():
    sched = scheduler(max_adapters=1)
    a, b, base = request("a", 4, adapter="x"), request("b", 4, adapter="y"), request("c", 4)
    for one in (a, b, base):
        sched.add(one)
    sched.complete(sched.schedule())
    assert sched.adapters_running == ["x"]
    assert sched.adapters_waiting == ["y"]
    assert base in sched.running
    run(sched)
    assert b.finished is FinishReason.LENGTH


def test_priority_goes_before_arrival_where_it_is_asked_for():
    sched = scheduler(sequences=1, by_priority=True)
    low, high = request("low", 4, priority=5, arrival=0.0), request("high", 4, arrival=1.0)
    sched.add(low)
    sched.add(high)
    assert sched.schedule().admitted == [high]


def test_a_vector_is_ready_after_prefill():
    sched = scheduler()
    one = request("e", 12, 1, pooling=True)
    sched.add(one)
    assert sched.complete(sched.schedule()) == [one]
    assert (one.finished, one.generated) == (FinishReason.STOP, 0)


def test_an_aborted_request_frees_what_it_held():
    sched = scheduler()
    one = request("a", 12)
    sched.add(one)
    step = sched.schedule()
    sched.remove(one, FinishReason.ABORT)
    assert sched.complete(step) == []
    assert sched.cache.usage == 0


def test_a_token_of_a_prompt_attends_to_those_before_it_and_to_itself():
    sched = Scheduler(KvCache(100, 16), max_tokens=64, max_sequences=4)
    sched.add(Request("a", range(100), 2, 0.0, output=[0, 0]))
    pairs: list[float] = []
    for _ in range(3):
        step = sched.schedule()
        pairs.append(step.load().attention_pairs)
        sched.complete(step)
    assert pairs == [sum(range(1, 65)), sum(range(65, 101)), 101]
