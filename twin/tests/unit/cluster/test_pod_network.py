"""Connections of a cluster's programs that its NetworkPolicies decide about."""

import threading
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.base.context import ClusterSpec
from twin.cluster.base.pod_network import PodNetwork
from twin.cluster.services.connections import PodConnections
from twin.host.paths import TwinPaths
from twin.tests.unit.cluster.test_service_proxy import Objects
from twin.world.store import Store, new_record

SPEC = ClusterSpec("p", "us-central1", "main", (), False, "1", "u")


def pod(name: str, address: str, namespace: str = "models", **labels: str) -> Any:
    return {
        "metadata": {"labels": labels, "name": name, "namespace": namespace},
        "spec": {"containers": []},
        "status": {"podIP": address},
    }


PICKER = pod("picker", "127.64.0.2", app="picker")
ENGINE = pod("engine", "127.64.0.3", app="engine")
HOOK = pod("hook", "127.64.0.4", "kueue-system", app="kueue")


def closing(namespace: str, *ingress: Any) -> Any:
    meta = {"name": "closed", "namespace": namespace}
    return {"metadata": meta, "spec": {"podSelector": {}, "ingress": list(ingress)}}


class Cluster:
    """A cluster of the twin with some pods and policies."""

    def __init__(self, folder: Path, *policies: Any, **inputs: Any) -> None:
        self.paths, self.spec, self.dir = TwinPaths(folder), SPEC, folder
        name = "projects/p/locations/us-central1/clusters/main"
        record = new_record("gcp:container/cluster:Cluster", name, "main", "p", "", inputs, {})
        Store(self.paths.cloud_db).add(record, [])
        objects: dict[str, Any] = {
            "networkpolicies": list(policies),
            "pods": [PICKER, ENGINE, HOOK],
        }
        self.watches = Objects(objects)


@pytest.fixture
def stop():
    event = threading.Event()
    yield event
    event.set()


def started(part: Any, stop: threading.Event) -> Any:
    part.start(stop)
    for each in vars(part).values():
        if hasattr(each, "synced"):
            assert each.synced.wait(5)
    return part


DATAPLANE = {"datapathProvider": "ADVANCED_DATAPATH"}
CLOSED = closing("models", {"from": [{"podSelector": {"matchLabels": {"app": "gate"}}}]})
REFUSED = (
    "models/picker to port 8000 of models/engine: no NetworkPolicy of the receiver's namespace "
    "lets it in"
)


@pytest.mark.parametrize(("inputs", "refused"), [(DATAPLANE, REFUSED), ({}, None)])
def test_policies_decide_in_a_cluster_that_enforces_them(tmp_path, stop, inputs, refused):
    context: Any = Cluster(tmp_path, CLOSED, **inputs)
    network = started(PodNetwork(context), stop)
    assert network.refusal(PICKER, ENGINE, 8000) == refused


def test_the_control_plane_reaches_webhooks_from_a_pod_of_kube_system(tmp_path, stop):
    name = {"kubernetes.io/metadata.name": "kube-system"}
    open_to = closing("kueue-system", {"from": [{"namespaceSelector": {"matchLabels": name}}]})
    for number, (policy, refused) in enumerate(
        [(closing("kueue-system"), True), (open_to, False), (CLOSED, False)]
    ):
        context: Any = Cluster(tmp_path / str(number), policy, **DATAPLANE)
        network = started(PodNetwork(context), stop)
        assert (network.refusal_of_control_plane(HOOK, 9443) is not None) is refused


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (("models", "picker", "127.64.0.3", 8000), REFUSED),
        (
            ("kueue-system", "hook", "127.64.0.2", 9090),
            "kueue-system/hook to port 9090 of "
            "models/picker: no NetworkPolicy of the receiver's namespace lets it in",
        ),
        (("models", "picker", "127.64.0.4", 9443), "ok"),
        (("models", "picker", "127.64.0.9", 8000), "ok"),  # no pod has this address
        (("models", "other", "127.64.0.3", 8000), "ok"),
    ],
)
def test_a_connection_from_one_pod_to_the_address_of_another_is_decided(
    tmp_path, stop, asked, answer
):
    context: Any = Cluster(tmp_path, CLOSED, **DATAPLANE)
    connections = PodConnections(context)
    thread = threading.Thread(target=connections.run, args=(stop,))
    thread.start()
    for informer in (connections._pods, connections._network._policies):
        assert informer.synced.wait(5)
    assert connections.decide(*asked) == answer
    stop.set()
    thread.join(5)
