"""Fixtures of the gateway tests."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gke_inference.gateway.routes import RoutedModel, objectives
from twin.tests.eventually import eventually
from twin.tests.running.gateway.client import ADAPTERS, ADDRESS, MODELS_READ, PORT, ask
from twin.tests.running.gateway.cluster import Cluster
from twin.tests.running.gateway.house import House
from twin.tests.running.gateway.manifests import gateway, model_rules, route, service
from twin.tests.tools import needed


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start the cluster once, with a running controller; everything ends with the session."""
    needed("etcd", "kube-apiserver", "epp", "body-router", "envoy")
    found = Cluster(Path(tmp_path_factory.mktemp("gw")))
    try:
        found.start()
        found.start_controller()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A gateway whose extensions each test chooses."""
    needed("envoy")
    found = House(tmp_path_factory.mktemp("gateway"))
    yield found
    found.close()


@pytest.fixture(scope="package")
def models(cluster: Cluster):
    """Two models and 100 adapters behind one address, and a static catalogue."""
    pods = {
        "llama": cluster.model("llama", 3, reads=MODELS_READ),
        "gemma": cluster.model("gemma", 1, "FailOpen", reads=MODELS_READ),
    }
    pods["catalogue"] = [cluster.pod("catalogue", {"app": "catalogue"})]
    names = {"llama-8b": "llama", "gemma-27b": "gemma", **dict.fromkeys(ADAPTERS, "llama")}
    catalogue = {
        "matches": [{"path": {"type": "Exact", "value": "/v1/models"}}],
        "backendRefs": [{"name": "catalogue", "port": 80}],
    }
    svc = service("catalogue", {"app": "catalogue"}, 80)
    svc["spec"]["ports"][0]["targetPort"] = 8000
    cluster.apply(
        svc,
        *gateway("models", ADDRESS, PORT),
        route("models", "models", model_rules(names)),
        route("catalogue", "models", [catalogue]),
    )
    limit = time.monotonic() + 30
    while True:
        try:
            if (
                all(ask(m)[0] == 200 for m in ("llama-8b", "gemma-27b"))
                and ask(None, "/v1/models")[0] == 200
            ):
                return pods
        except OSError:
            pass
        assert time.monotonic() < limit, "the gateway does not answer"
        time.sleep(0.1)


@pytest.fixture(name="eventually")
def repeat_until_it_holds():
    """Return a function that repeats a check until it holds."""
    return eventually


@pytest.fixture
def classes(cluster, models):
    """The objectives that the platform makes for a model."""
    model = RoutedModel(
        model_name="llama-8b",
        pool_name="llama",
        selector={"model": "llama"},
        target_port=8000,
        timeout_seconds=60,
    )
    made = objectives(model, "default")
    cluster.apply(*made)
    yield {obj["metadata"]["name"].rpartition("-")[2]: obj["metadata"]["name"] for obj in made}
    cluster.engines.metrics.clear()
    for obj in made:
        cluster.delete(obj["apiVersion"], obj["kind"], obj["metadata"]["name"])
