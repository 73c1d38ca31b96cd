"""Node pools whose nodes are placed close to each other (rule placement.compact)."""

from pathlib import Path
from typing import Any

import pytest

from twin.providers.gcp.effects import resource_policy
from twin.providers.gcp.resources.pools.placement import check_placement
from twin.tests.unit.gcp.conftest import Cloud, Refused
from twin.wire.property_values import CloudError

CLUSTER: dict[str, Any] = {"nodeLocations": ["us-central1-a", "us-central1-b"]}
POOL: dict[str, Any] = {
    "nodeConfig": {"machineType": "a3-ultragpu-8g"},
    "nodeLocations": ["us-central1-b"],
    "placementPolicy": {"type": "COMPACT"},
}


@pytest.mark.parametrize(
    "config",
    [
        {"machineType": "a4-highgpu-8g", "flexStart": True},
        {"machineType": "a3-highgpu-8g", "spot": True},
        {"machineType": "g2-standard-12"},
        {"machineType": "n2-standard-8"},
    ],
)
def test_a_pool_in_one_zone_can_be_compact(config: dict[str, Any]):
    check_placement({**POOL, "nodeConfig": config}, CLUSTER)


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (
            {"nodeConfig": {"machineType": "e2-standard-4"}},
            "Machine type e2-standard-4 does not support compact placement.",
        ),
        (
            {"nodeConfig": {"machineType": "a3-highgpu-8g", "flexStart": True}},
            "Machine type a3-highgpu-8g does not support compact placement with flex-start.",
        ),
        (
            {"nodeLocations": []},
            "A node pool with compact placement must be in one zone, "
            "got us-central1-a, us-central1-b.",
        ),
        (
            {"upgradeSettings": {"strategy": "BLUE_GREEN"}},
            "Node pools with compact placement support only surge upgrades.",
        ),
        (
            {"queuedProvisioning": {"enabled": True}},
            "Compact placement is not supported with queued provisioning.",
        ),
    ],
)
def test_a_pool_that_cannot_be_compact_is_refused(pool: dict[str, Any], message: str):
    with pytest.raises(CloudError) as caught:
        check_placement({**POOL, **pool}, CLUSTER)
    assert message in str(caught.value)


def test_a_slice_of_tpus_is_placed_as_a_whole():
    slice_ = {"machineType": "ct6e-standard-4t"}
    check_placement({**POOL, "nodeConfig": slice_, "nodeLocations": []}, CLUSTER)


POLICY: dict[str, Any] = {
    "groupPlacementPolicy": {"collocation": "COLLOCATED"},
    "name": "acme-nodes-placement",
    "region": "us-central1",
}


def test_a_policy_outlives_the_nodes_that_gke_created_with_it(
    cloud: Cloud, clusters: list[Any], monkeypatch: pytest.MonkeyPatch
):
    policy = cloud.create("gcp:compute/resourcePolicy:ResourcePolicy", "near", POLICY)
    settings = {"initialNodeCount": 1, "location": "us-central1", "removeDefaultNodePool": True}
    cloud.create("gcp:container/cluster:Cluster", "c", {**settings, "name": "serving"})
    (cloud.paths.cluster("us-central1", "serving") / "kubeconfig").touch()
    labels = {
        "cloud.google.com/placement-policy-name": "acme-nodes-placement",
        "topology.kubernetes.io/zone": "us-central1-b",
    }
    nodes = [{"metadata": {"labels": labels, "name": "gke-serving-1"}}]

    class Api:
        """The nodes of a running cluster."""

        def __init__(self, config: Path) -> None:
            assert config.exists()

        def list(self, path: str, label_selector: str) -> list[Any]:
            assert path == "/api/v1/nodes"
            key, _, value = label_selector.partition("=")
            return [each for each in nodes if each["metadata"]["labels"].get(key) == value]

    monkeypatch.setattr(resource_policy, "Kube", Api)
    user = "projects/acme/zones/us-central1-b/instances/gke-serving-1"
    with pytest.raises(Refused, match=f"is already being used by '{user}'"):
        cloud.delete(policy)
    nodes.clear()
    cloud.delete(policy)
