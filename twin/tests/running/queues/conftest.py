"""A control plane with GKE's controllers and the real Kueue and JobSet, once for a folder."""

from collections.abc import Iterator

import pytest

from gke_inference.namespace.serving_namespace import namespace_object
from gke_inference.operators.job_sets import job_set_operator as sets
from gke_inference.operators.job_sets.job_set_webhooks import webhooks as webhooks_of_sets
from gke_inference.operators.queue_definitions import definitions
from gke_inference.operators.queue_operator import (
    NAMESPACE,
    WEBHOOK_SERVICE,
    operator_objects,
    operator_server,
    priorities,
)
from gke_inference.operators.queue_webhooks import webhooks
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths
from twin.providers.kubernetes.manifests.objects import to_object
from twin.tests.eventually import eventually
from twin.tests.running.plane import control_plane, system_node
from twin.wire.kube import Kube


@pytest.fixture(scope="package")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterContext]:
    yield from control_plane(TwinPaths(tmp_path_factory.mktemp("queues") / "twin"), "kueue")


@pytest.fixture(scope="package")
def kube(context: ClusterContext) -> Kube:
    """The cluster, with the operators ready."""
    found = context.kube
    found.post("/api/v1/nodes", system_node())
    of_sets = [
        namespace_object(sets.NAMESPACE, "restricted"),
        *sets.definitions().values(),
        *sets.operator_objects().values(),
        *webhooks_of_sets(sets.NAMESPACE, sets.WEBHOOK_SERVICE).values(),
        sets.operator_server(1),
    ]
    for obj in of_sets:
        eventually(lambda obj=obj: found.apply(to_object(obj), manager="test"), 30)
    made = [namespace_object(NAMESPACE, "restricted")]
    made += definitions(NAMESPACE, WEBHOOK_SERVICE).values()
    made += operator_objects(job_sets=True).values()
    made += webhooks(NAMESPACE, WEBHOOK_SERVICE, job_sets=True).values()
    for obj in [*made, operator_server(2, job_sets=True), *priorities().values()]:
        eventually(lambda obj=obj: found.apply(to_object(obj), manager="test"), 30)
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/kueue-controller-manager"
    eventually(lambda: found.get(path)["status"].get("availableReplicas") == 2, 120)
    path = f"/apis/apps/v1/namespaces/{sets.NAMESPACE}/deployments/{sets.NAME}"
    eventually(lambda: found.get(path)["status"].get("availableReplicas") == 1, 120)
    return found
