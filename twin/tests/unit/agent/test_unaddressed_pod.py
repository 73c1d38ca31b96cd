"""A pod that is deleted before it has an address: the agent removes it, as a kubelet does."""

from pathlib import Path
from typing import Any, cast

import pytest

from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.agent.images import Images
from twin.cluster.agent.pod import PodRunner
from twin.cluster.base.context import ClusterContext

POD = {
    "metadata": {
        "name": "early",
        "namespace": "n",
        "uid": "u",
        "deletionTimestamp": "2026-11-22T10:00:00Z",
    },
    "spec": {"nodeName": "l4-1", "containers": [{"name": "vllm", "image": "vllm/vllm-openai:v1"}]},
    "status": {"phase": "Pending"},
}


class Cluster:
    """A cluster's folder and an API that notes what is deleted."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.kube = self
        self.deleted: list[tuple[str, Any]] = []

    def delete(self, path: str, options: Any) -> None:
        self.deleted.append((path, options))


@pytest.mark.parametrize("status", [POD["status"], {}, {"podIP": "127.64.0.9"}])
def test_it_is_removed_at_once_with_its_folder(tmp_path: Path, status: Any):
    cluster = Cluster(tmp_path)
    context, images = cast(ClusterContext, cluster), cast(Images, None)
    configs = cast(ConfigVersions, None)
    runner = PodRunner(context, POD, {"metadata": {"name": "l4-1"}}, images, configs)
    runner.update({**POD, "status": status})  # an address may still come meanwhile
    runner.start()
    runner.join(10)
    assert not runner.alive
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    assert cluster.deleted == [("/api/v1/namespaces/n/pods/early", options)]
    assert not runner.folder.exists()
