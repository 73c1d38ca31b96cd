"""Hot reload: all parts of a gateway change repeatedly, and no request is lost."""

import itertools

import pytest

from gke_inference.gateway.routes import RoutedModel, routes
from twin.tests.running.gateway.client import ADAPTERS, ADDRESS, PORT, ask
from twin.tests.running.gateway.load import Load
from twin.tests.running.gateway.manifests import (
    gateway,
    health_check,
    model_rules,
    pool,
    pool_ref,
    route,
    time_limit,
)

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(300)]
ROUTE = ("gateway.networking.k8s.io/v1", "HTTPRoute")
BODIES = [
    {"model": "llama-8b", "prompt": "x"},
    {"model": "llama-8b", "prompt": "x", "stream": True, "max_tokens": 20, "gap": 0.05},
    {"model": ADAPTERS[70], "prompt": "x", "stream": True, "max_tokens": 5, "gap": 0.02},
    {"model": "steady", "prompt": "x" * 200_000},
    {"model": "steady", "prompt": "x", "stream": True, "max_tokens": 60, "gap": 0.05},
]


def steady(weight):
    """Return a route between two pools; both can answer."""
    return route(
        "steady",
        "models",
        [
            {
                "matches": [{"headers": [{"name": "X-Gateway-Model-Name", "value": "steady"}]}],
                "backendRefs": [pool_ref("llama", 100 - weight), pool_ref("gemma", weight)],
            }
        ],
    )


@pytest.fixture
def steps(models, cluster, eventually):
    """Return the changes of one round, in order."""
    extension = gateway("models", ADDRESS, PORT)[1]
    call = extension["spec"]["extensionChains"][0]["extensions"][0]
    extra = route("extra", "models", model_rules({"extra": "gemma"}))
    numbers = itertools.count()

    def replace_pod():
        name = f"llama-extra-{next(numbers)}"
        address = cluster.pod(name, {"model": "llama"})
        eventually(lambda: any(seen[0] == address for seen in cluster.engines.seen), 60)
        cluster.delete("v1", "Pod", name)  # its engine goes on: pods drain before they end

    def router(fail_open):
        call["failOpen"] = fail_open
        cluster.apply(extension)

    def other_route():
        cluster.apply(extra)
        eventually(lambda: ask("extra")[0] == 200, 30)
        cluster.delete(*ROUTE, "extra")

    return [
        lambda: cluster.apply(steady(100)),
        replace_pod,
        lambda: cluster.apply(pool("llama", "llama-second", "FailClose")),
        lambda: router(True),
        lambda: cluster.apply(time_limit("llama", 120)),
        lambda: cluster.apply(steady(0)),
        other_route,
        lambda: cluster.apply(pool("llama", "llama-epp", "FailOpen")),
        lambda: router(False),
        lambda: cluster.apply(steady(50)),
        lambda: cluster.delete("networking.gke.io/v1", "GCPBackendPolicy", "llama"),
        lambda: cluster.apply(pool("llama", "llama-epp", "FailClose")),
    ]


@pytest.mark.usefixtures("models")
def test_no_request_is_lost_while_routes_backends_and_pickers_change(cluster, eventually, steps):
    cluster.start_picker("llama", "llama-second")
    cluster.apply(steady(50))
    eventually(lambda: ask("steady")[0] == 200)
    try:
        with Load(BODIES) as load:
            for step in steps * 2:
                before = load.sent
                step()
                eventually(lambda b=before: load.sent > b + 5, 60)
        assert load.lost == []
        assert set(load.statuses) == {200}
        assert load.sent > 120
    finally:
        cluster.delete(*ROUTE, "steady")
        cluster.kill("llama-second")


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("adapters", [pytest.param(20, marks=pytest.mark.soak), 200])
def test_every_adapter_of_a_model_is_reached_however_many_there_are(
    cluster, models, eventually, adapters
):
    names = tuple(f"lora-{number:03}" for number in range(adapters))
    model = RoutedModel(
        adapters=names,
        model_name="base",
        pool_name="gemma",
        selector={"model": "gemma"},
        target_port=8000,
        timeout_seconds=60,
    )
    made = routes(model, "default", "models", None)
    cluster.apply(*made, health_check("gemma"))
    try:
        eventually(lambda: ask(names[-1])[0] == 200, 30)
        for name in ("base", *names):
            status, _, body = ask(name)
            assert (status, body["model"]) == (200, name)
            assert body["served_by"] in models["gemma"]
    finally:
        for obj in made:
            cluster.delete(*ROUTE, obj["metadata"]["name"])
