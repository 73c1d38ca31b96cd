"""A canary as the components make it, through the real gateway: shares, pins, rollback."""

import math
from collections import Counter

import pytest

from gke_inference.gateway.canary import pinned_routes
from gke_inference.gateway.routes import RoutedCanary, RoutedModel, routes
from twin.tests.running.gateway.client import ask
from twin.tests.running.gateway.load import Load

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(240)]
ROUTE = ("gateway.networking.k8s.io/v1", "HTTPRoute")
STABLE, SECOND = "falcon", "falcon-v2"


def versions(percent):
    """Return the routes of a model with two adapters and a canary."""
    canary = RoutedCanary(
        percent=percent, pool_name=SECOND, selector={"model": SECOND}, version="v2"
    )
    model = RoutedModel(
        adapters=("falcon-sql", "falcon-chat"),
        canary=canary,
        model_name="falcon-7b",
        pool_name=STABLE,
        selector={"model": STABLE},
        target_port=8000,
        timeout_seconds=60,
    )
    return [
        *routes(model, "default", "models", None),
        *pinned_routes(model, canary, "default", "models", None),
    ]


@pytest.fixture(scope="module")
def falcon(cluster, models):
    """Both versions of a model behind the gateway; the second has no share yet."""
    pods = {STABLE: cluster.model(STABLE, 2), SECOND: cluster.model(SECOND, 1)}
    cluster.apply(*versions(0))
    yield pods
    for obj in versions(0):
        cluster.delete(*ROUTE, obj["metadata"]["name"])
    for name in (STABLE, SECOND):
        cluster.kill(f"{name}-epp")


@pytest.fixture
def shared(cluster, falcon, eventually):
    """Return a function that gives the canary a share and waits until both versions answer."""

    def share(percent):
        cluster.apply(*versions(percent))
        for version, name in (("v2", SECOND), ("stable", STABLE)):
            eventually(lambda v=version, n=name: pinned(v)[2].get("served_by") in falcon[n], 30)

    return share


def pinned(version, model="falcon-7b"):
    return ask(model, headers={"x-model-version": version})


def test_a_header_reaches_a_version_that_has_no_share(falcon, shared):
    shared(0)
    for model in ("falcon-7b", "falcon-sql", "falcon-chat"):
        for _ in range(5):
            assert ask(model)[2]["served_by"] in falcon[STABLE]
            assert pinned("v2", model)[2]["served_by"] in falcon[SECOND]
            assert pinned("stable", model)[2]["served_by"] in falcon[STABLE]
    # the version is the platform's business: the engine is asked for the name clients use
    assert pinned("v2")[2]["model"] == "falcon-7b"


def test_a_version_that_does_not_exist_is_as_good_as_none(falcon, shared):
    shared(0)
    assert pinned("v9")[2]["served_by"] in falcon[STABLE]


def test_a_tenth_of_the_requests_reaches_the_canary(falcon, shared, eventually):
    shared(10)
    eventually(lambda: ask("falcon-7b")[2]["served_by"] in falcon[SECOND], 30)
    count, share = 300, 0.1
    hits = Counter(ask("falcon-7b")[2]["served_by"] in falcon[SECOND] for _ in range(count))
    deviation = math.sqrt(count * share * (1 - share))
    assert abs(hits[True] - count * share) < 4 * deviation  # 1 in 15,000 runs is outside


def test_adapters_have_the_share_of_their_model(falcon, shared, eventually):
    shared(50)
    for adapter in ("falcon-sql", "falcon-chat"):
        eventually(lambda a=adapter: ask(a)[2]["served_by"] in falcon[SECOND], 30)
        eventually(lambda a=adapter: ask(a)[2]["served_by"] in falcon[STABLE], 30)


@pytest.mark.soak  # test_gateway_reload.py changes routes and pools under load
def test_promotion_and_rollback_under_load_lose_nothing(cluster, falcon, shared, eventually):
    shared(10)
    bodies = [
        {"model": "falcon-7b", "prompt": "x"},
        {"model": "falcon-7b", "prompt": "x", "stream": True, "max_tokens": 10, "gap": 0.05},
        {"model": "falcon-sql", "prompt": "x"},
        {"model": "falcon-chat", "prompt": "x", "stream": True, "max_tokens": 4, "gap": 0.02},
    ]
    old, new = set(falcon[STABLE]), set(falcon[SECOND])

    def settles(load, wanted):
        def only():
            load.served_by.clear()
            eventually(lambda: load.served_by.total() > 20)
            return set(load.served_by) <= wanted

        eventually(only, 30)

    with Load(bodies) as load:
        cluster.apply(*versions(100))
        settles(load, new)
        cluster.apply(*versions(0))
        settles(load, old)
        cluster.apply(*versions(50))
        eventually(lambda: set(load.served_by) >= new, 30)
    assert load.lost == []
    assert set(load.statuses) == {200}
    assert load.sent > 100


@pytest.mark.soak  # the same
def test_taking_the_canary_away_under_load_loses_nothing(cluster, falcon, shared, eventually):
    shared(50)
    canary = RoutedCanary(percent=0, pool_name=SECOND, selector={}, version="v2")
    plain = RoutedModel(
        adapters=("falcon-sql", "falcon-chat"),
        model_name="falcon-7b",
        pool_name=STABLE,
        selector={"model": STABLE},
        target_port=8000,
        timeout_seconds=60,
    )
    pins = pinned_routes(plain, canary, "default", "models", None)
    body = {"model": "falcon-7b", "prompt": "x", "stream": True, "max_tokens": 5, "gap": 0.02}
    with Load(
        [body, {**body, "model": "falcon-sql"}, {"model": "falcon-7b", "prompt": "x"}]
    ) as load:
        eventually(lambda: set(load.served_by) & set(falcon[SECOND]))
        cluster.apply(*routes(plain, "default", "models", None))
        for pin in pins:
            cluster.delete(*ROUTE, pin["metadata"]["name"])

        def alone():
            load.served_by.clear()
            eventually(lambda: load.served_by.total() > 20)
            return set(load.served_by) <= set(falcon[STABLE])

        eventually(alone, 30)
    assert load.lost == []
    assert set(load.statuses) == {200}
    cluster.apply(*versions(0))
