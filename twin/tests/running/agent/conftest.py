"""A real control plane with the node agent, once for all tests of this folder."""

import json
import secrets
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from twin.cluster import agent as agents
from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.controlplane.blocks import hold_free_block
from twin.cluster.controlplane.processes import ControlPlane
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.pki import make_twin_pki
from twin.tests.eventually import eventually
from twin.tests.running.agent.objects import node, remove
from twin.tests.tools import needed
from twin.wire.kube import Kube

JsonObject = dict[str, Any]


class Agent:
    """The node agent, which tests may stop and start."""

    def __init__(self, context: ClusterContext) -> None:
        self.context = context
        self.start()

    def start(self) -> None:
        self._stop = threading.Event()
        runner = agents.NodeAgent(self.context)
        self._thread = threading.Thread(target=runner.run, args=(self._stop,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(15)

    @contextmanager
    def away(self) -> Generator[None]:
        """No agent runs meanwhile."""
        self.stop()
        try:
            yield
        finally:
            self.start()


@pytest.fixture(scope="package")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterContext]:
    needed("etcd", "kube-apiserver", "kwok", "epp")
    paths = TwinPaths(Path(tmp_path_factory.mktemp("twin")))
    paths.create()
    paths.settings_file.write_text(json.dumps({"speed": 200}))
    make_twin_pki(paths)
    folder = paths.cluster("us-east5", "test")
    folder.mkdir(parents=True)
    spec = ClusterSpec("p", "us-east5", "test", ("us-east5-a",), False, "1.36.3-gke.1", "u")
    spec.save(folder)
    block, guard = hold_free_block(17)
    plane = ControlPlane(paths, folder, block, spec.version)
    try:
        plane.start()
        yield ClusterContext(paths, folder)
    finally:
        agents.stop_all(folder)
        plane.stop()
        guard.close()
        assert not processes.running(paths)


@pytest.fixture(scope="package")
def agent(context: ClusterContext) -> Iterator[Agent]:
    kube = context.kube
    kube.post("/api/v1/nodes", node("tpu-1", "tpu", 4))
    kube.post("/api/v1/nodes", node("l4-1", "gpu", 1))
    kube.post("/api/v1/nodes", node("cpu-1", "cpu", 0))
    found = Agent(context)
    yield found
    found.stop()


@pytest.fixture
def kube(agent: Agent) -> Kube:
    return agent.context.kube


@pytest.fixture
def namespace(kube: Kube, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of its own, with its default service account; its pods are gone afterwards."""
    name = f"t{abs(hash(request.node.name)) % 10**8}-{secrets.token_hex(3)}"  # a rerun has its own
    kube.post("/api/v1/namespaces", {"metadata": {"name": name}})
    eventually(lambda: kube.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    for pod in kube.list(f"/api/v1/namespaces/{name}/pods"):
        remove(kube, f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}", 1)
    eventually(lambda: not kube.list(f"/api/v1/namespaces/{name}/pods"))
