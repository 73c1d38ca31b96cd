"""Node pools whose accelerators have networks of their own (rule network.profile)."""

from typing import Any

import pytest

from twin.providers.gcp.resources.pools.networks import check_networks
from twin.wire.property_values import CloudError

CLUSTER: dict[str, Any] = {
    "datapathProvider": "ADVANCED_DATAPATH",
    "nodeLocations": ["us-central1-a", "us-central1-b"],
}
POOL: dict[str, Any] = {
    "networkConfig": {"acceleratorNetworkProfile": "auto"},
    "nodeConfig": {"machineType": "a3-ultragpu-8g"},
    "nodeLocations": ["us-central1-b"],
}


@pytest.mark.parametrize("name", ["a3-ultragpu-8g", "a4-highgpu-8g", "ct6e-standard-4t"])
def test_a_pool_in_one_zone_of_a_cluster_with_dataplane_v2_has_its_networks(name: str):
    check_networks({**POOL, "nodeConfig": {"machineType": name}}, CLUSTER)


@pytest.mark.parametrize(
    ("pool", "cluster", "message"),
    [
        (
            {"networkConfig": {"acceleratorNetworkProfile": "manual"}},
            {},
            "Invalid accelerator network profile 'manual': only 'auto' is supported.",
        ),
        (
            {"nodeConfig": {"machineType": "g2-standard-12"}},
            {},
            "Machine type g2-standard-12 does not support accelerator network profiles.",
        ),
        (
            {"nodeLocations": []},
            {},
            "A pool with an accelerator network profile has one zone, "
            "got us-central1-a, us-central1-b.",
        ),
        (
            {},
            {"datapathProvider": "LEGACY_DATAPATH"},
            "Accelerator network profiles require GKE Dataplane V2.",
        ),
    ],
)
def test_a_pool_that_cannot_have_them_is_refused(
    pool: dict[str, Any], cluster: dict[str, Any], message: str
):
    with pytest.raises(CloudError) as caught:
        check_networks({**POOL, **pool}, {**CLUSTER, **cluster})
    assert message in str(caught.value)


def test_a_pool_without_a_profile_is_left_alone():
    check_networks({"nodeConfig": {"machineType": "g2-standard-12"}}, {})
