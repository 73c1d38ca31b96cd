"""A control plane with GKE's controllers and the real operator of groups, once for a folder."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gke_inference.namespace.serving_namespace import namespace_object
from gke_inference.operators.group_definitions import definitions
from gke_inference.operators.group_operator import (
    NAMESPACE,
    WEBHOOK_SERVICE,
    operator_objects,
    operator_server,
)
from gke_inference.operators.group_webhooks import webhooks
from twin import daemon
from twin.cluster import agent as agents
from twin.cluster.autoscaler.autoscaler import Autoscaler
from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.controlplane import bootstrap
from twin.cluster.controlplane.konnectivity import Konnectivity
from twin.cluster.controlplane.processes import ControlPlane, hold_free_block
from twin.host.paths import TwinPaths
from twin.providers.kubernetes.manifests.objects import to_object
from twin.tests.eventually import eventually
from twin.toolchain import ToolError, tool
from twin.wire.kube import Kube

JsonObject = dict[str, Any]


@pytest.fixture(scope="package")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterContext]:
    for program in ("etcd", "kube-apiserver", "kwok", "lws"):
        try:
            tool(program)
        except ToolError as error:
            pytest.skip(str(error))
    paths = TwinPaths(tmp_path_factory.mktemp("groups") / "twin")
    paths.create()
    daemon.prepare(paths)
    paths.settings_file.write_text(json.dumps({"speed": 100}))
    folder = paths.cluster("us-east5", "test")
    zones = ("us-east5-a", "us-east5-b")
    ClusterSpec("acme", "us-east5", "test", zones, False, "1.36.3-gke.1", "uid").save(folder)
    block, guard = hold_free_block(int(time.time()))
    (folder / "block").write_text(str(block))
    plane = ControlPlane(paths, folder, block, "1.36.3-gke.1")
    stop = threading.Event()
    threads: list[threading.Thread] = []
    with guard:
        try:
            plane.start()
            found = ClusterContext(paths, folder)
            (folder / "pools").mkdir(exist_ok=True)
            bootstrap.install(found)
            parts = [Konnectivity(found), agents.NodeAgent(found), Autoscaler(found)]
            threads = [threading.Thread(target=part.run, args=(stop,)) for part in parts]
            for thread in threads:
                thread.start()
            yield found
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=15)
            agents.stop_all(folder)
            plane.stop()


def system_node() -> JsonObject:
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "system-1",
            "labels": {"kubernetes.io/hostname": "system-1"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


@pytest.fixture(scope="package")
def kube(context: ClusterContext) -> Kube:
    """The cluster, with the operator ready."""
    found = context.kube
    found.post("/api/v1/nodes", system_node())
    made = [namespace_object(NAMESPACE, "restricted"), *definitions().values()]
    made += [*operator_objects().values(), *webhooks(NAMESPACE, WEBHOOK_SERVICE).values()]
    for obj in [*made, operator_server(2)]:
        eventually(lambda obj=obj: found.apply(to_object(obj), manager="test"), 30)
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/lws-controller-manager"
    eventually(lambda: found.get(path)["status"].get("availableReplicas") == 2, 120)
    return found
