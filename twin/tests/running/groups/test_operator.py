"""The real LeaderWorkerSet operator, deployed by the component's objects."""

import pytest

from twin.tests.eventually import eventually
from twin.wire.kube import Kube, KubeError

pytestmark = pytest.mark.needs_tools
GROUPS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"


def small(name: str, size: int = 2) -> dict:
    pod = {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": pod}}},
    }


def test_its_webhook_refuses_what_upstream_refuses(kube: Kube):
    with pytest.raises(KubeError, match="size must be equal or greater than 1"):
        kube.post(GROUPS, small("wrong", size=0))


def test_a_group_comes_up_and_its_pods_know_their_leader(kube: Kube):
    kube.post(GROUPS, small("pair"))
    ready = eventually(lambda: kube.get(f"{GROUPS}/pair")["status"].get("readyReplicas"))
    assert ready == 1
    pods = kube.list("/api/v1/namespaces/default/pods")
    variables = {
        pod["metadata"]["name"]: {
            entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]
        }
        for pod in pods
    }
    assert set(variables) == {"pair-0", "pair-0-1"}
    assert {each["LWS_LEADER_ADDRESS"] for each in variables.values()} == {"pair-0.pair.default"}
    kube.delete(f"{GROUPS}/pair", {"propagationPolicy": "Foreground"})
    eventually(lambda: not kube.list("/api/v1/namespaces/default/pods"))
