"""A deletion that arrives while the agent reports a status: the pod ends all the same."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.agent.images import Images
from twin.cluster.agent.pod import PodRunner
from twin.cluster.base.context import ClusterContext
from twin.wire.kube import KubeError

POD: dict[str, Any] = {
    "metadata": {"name": "short", "namespace": "n", "uid": "u"},
    "spec": {
        "nodeName": "l4-1",
        "containers": [{"name": "main", "image": "i"}],
        "volumes": [{"name": "late", "configMap": {"name": "late"}}],
    },
    "status": {"podIP": "127.64.0.9"},
}
DELETED = {**POD, "metadata": {**POD["metadata"], "deletionTimestamp": "2026-11-23T10:00:00Z"}}


class Cluster:
    """An API whose response to a status is older than the deletion that its watch reports."""

    runner: PodRunner

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.kube = self
        self.paths = self
        self.cloud_db = folder / "cloud.db"
        self.volumes = folder / "volumes"
        self.spec = SimpleNamespace(name="c")
        self.deleted: list[str] = []

    def get(self, path: str) -> Any:
        raise KubeError(404, "NotFound", path, {})

    def post(self, path: str, body: Any) -> None:
        del path, body

    def patch(self, path: str, body: Any, *, type: str) -> Any:  # noqa: A002 - as in Kube
        assert (path, type) == ("/api/v1/namespaces/n/pods/short/status", "strategic")
        self.runner.update(DELETED)
        return {**POD, "status": {**POD["status"], **body["status"]}}

    def delete(self, path: str, options: Any) -> None:
        assert options["preconditions"] == {"uid": "u"}
        self.deleted.append(path)


def test_the_pod_is_removed_although_the_response_shows_it_undeleted(tmp_path: Path):
    cluster = Cluster(tmp_path)
    context, images = cast(ClusterContext, cluster), cast(Images, None)
    node = {"metadata": {"name": "l4-1"}}
    runner = PodRunner(context, POD, node, images, cast(ConfigVersions, None))
    cluster.runner = runner
    runner.start()
    runner.join(10)
    assert not runner.alive
    assert cluster.deleted == ["/api/v1/namespaces/n/pods/short"]
