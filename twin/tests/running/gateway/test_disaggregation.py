"""Prefill and decode apart, through the real API server, Envoy and picker with its plugins."""

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from twin.tests.running.gateway.client import PORT, ask
from twin.tests.running.gateway.cluster import BLOCK
from twin.tests.running.gateway.manifests import gateway, model_rules, route
from twin.tests.running.gateway.roles import MODEL, RolesPool, from_source, words
from twin.tests.tools import needed

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(300)]
ADDRESS = f"127.33.{BLOCK}.1"
DECODE = "halved-decode-0"
PREFILL = ("halved-prefill-0", "halved-prefill-1")


@pytest.fixture(scope="module")
def pool(cluster):
    needed("pd-epp")
    found = RolesPool(cluster, "halved")
    try:
        found.start(prefill=2, decode=1)
        rules = model_rules({MODEL: "halved"})
        cluster.apply(*gateway("halved", ADDRESS, PORT), route("halved", "halved", rules))
        limit = time.monotonic() + 60
        while not answers(words("warm", 3)):
            assert time.monotonic() < limit, "the gateway does not answer"
            time.sleep(0.1)
        yield found
    finally:
        found.stop()


def send(prompt, **fields):
    return ask(MODEL, address=ADDRESS, prompt=prompt, ignore_eos=True, **fields)


def answers(prompt):
    try:
        return send(prompt)[0] == 200
    except OSError:
        return False


def state(pool):
    """Prompt tokens by where they were computed, and the picker's decisions."""
    return Counter(
        prefilled=sum(pool.metric(pod, from_source("local_compute")) for pod in PREFILL),
        moved=pool.metric(DECODE, from_source("external_kv_transfer")),
        decoded=pool.metric(DECODE, from_source("local_compute")),
        cached=pool.metric(DECODE, from_source("local_cache_hit")),
        **pool.decisions(),
    )


def test_long_prompts_are_computed_by_prefill_and_answered_by_decode(pool):
    before = state(pool)
    asked = [send(words(f"long{n}-", 300), max_tokens=8) for n in range(4)]
    assert [status for status, _, _ in asked] == [200] * 4
    assert {headers["x-gke-inference-pod"] for _, headers, _ in asked} == {DECODE}
    tokens = sum(body["usage"]["prompt_tokens"] for _, _, body in asked)
    change = state(pool) - before
    assert change["prefill-decode"] == 4
    assert (change["prefilled"], change["moved"]) == (tokens, tokens)
    assert (change["decoded"], change["decode-only"]) == (0, 0)
    assert all(pool.metric(pod, "vllm:kv_cache_usage_perc") == 0 for pod in PREFILL)


def test_short_prompts_stay_on_decode(pool):
    before = state(pool)
    assert [send(words(f"s{n}-", 5))[0] for n in range(4)] == [200] * 4
    change = state(pool) - before
    assert change["decode-only"] == 4
    assert change["prefilled"] == change["moved"] == change["prefill-decode"] == 0
    assert change["decoded"] > 0


def test_a_long_prompt_that_decode_has_cached_stays_there(pool):
    prompt = words("again", 300)
    assert send(prompt)[0] == 200
    before = state(pool)
    status, _, body = send(prompt)
    change = state(pool) - before
    assert status == 200
    assert change["decode-only"] == 1
    assert change["prefilled"] == change["moved"] == 0
    assert change["cached"] > body["usage"]["prompt_tokens"] * 0.8


def test_the_answer_is_the_one_that_a_whole_replica_gives(pool):
    prompt = words("same", 300)
    _, _, split = send(prompt, max_tokens=20)
    _, _, whole = send(prompt, max_tokens=20)
    assert split["choices"] == whole["choices"]


def test_a_client_cannot_choose_the_address_that_the_sidecar_calls(pool):
    status, _, _ = ask(
        MODEL, address=ADDRESS, prompt="hi", headers={"x-prefiller-host-port": "127.0.0.1:1"}
    )
    assert status == 200
    assert "127.0.0.1:1" not in pool.log(DECODE)


def test_a_prefill_replica_killed_mid_way_loses_no_request(pool, eventually):
    enough = threading.Event()

    def keep_asking(client):
        found, numbers = Counter(), itertools.count()
        while not found or not enough.is_set():
            try:
                found[send(words(f"kill{client}-{next(numbers)}-", 1200), max_tokens=4)[0]] += 1
            except OSError as error:
                found[type(error).__name__] += 1
        return found

    with ThreadPoolExecutor(12) as threads:
        asking = [threads.submit(keep_asking, client) for client in range(12)]
        try:
            victim = eventually(
                lambda: next(
                    (p for p in PREFILL if pool.metric(p, "vllm:num_requests_running")), None
                )
            )
            pool.kill(victim)
            eventually(lambda: "fallback to decode" in pool.log(DECODE))
        finally:
            enough.set()
        found = sum((each.result() for each in asking), Counter())
    assert set(found) == {200}
    # the pod is still in the pool: what is sent to it now falls back, too
    late = Counter(send(words(f"late{number}-", 300))[0] for number in range(4))
    assert late == {200: 4}
