"""Versions, disks and zones that Google Cloud refuses: channels, auto-provisioning, node pools."""

from typing import Any

import pytest

from gke_inference.catalogue.versions import channel
from twin.cluster.controlplane.processes import ControlPlane
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources import refusals
from twin.providers.gcp.resources.special_outputs import version_of
from twin.wire.property_values import CloudError

V6E = {"machineType": "ct6e-standard-4t"}


def pool(config: dict[str, Any], *zones: str) -> None:
    refusals.check_offered({"nodeConfig": config}, config["machineType"], [*zones])


def test_a_version_is_what_the_channel_has() -> None:
    rapid = {"releaseChannel": {"channel": "RAPID"}}
    assert version_of({**rapid, "minMasterVersion": "1.37"}) == channel("rapid").newest
    assert version_of(rapid) == channel("rapid").default
    assert version_of({"minMasterVersion": "1.35"}) == "1.35.1-gke.1000000"


def test_a_version_that_the_channel_lacks_is_refused() -> None:
    regular = {"releaseChannel": {"channel": "REGULAR"}, "minMasterVersion": "1.37"}
    with pytest.raises(CloudError, match=r'Master version "1\.37" is unsupported'):
        refusals.check_version(regular)
    refusals.check_version({**regular, "minMasterVersion": "1.36"})


@pytest.mark.parametrize(("version", "gate"), [("1.36.4-gke.1", "false"), ("1.37", "true")])
def test_the_autoscaler_scales_from_zero_in_versions_that_do(
    tmp_path: Any, version: str, gate: str
) -> None:
    paths = TwinPaths(tmp_path)
    plane = ControlPlane(paths, tmp_path / "c", 0, version)
    assert plane.gates == f"--feature-gates=HPAScaleToZero={gate}"


def test_a_single_tenant_zone_has_machines_for_its_reservation_only() -> None:
    with pytest.raises(CloudError, match="does not exist in zone 'us-east4-a'"):
        pool(V6E, "us-east4-a")
    reserved = {"reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION"}}
    pool({**V6E, **reserved}, "us-east4-a")
    pool({**V6E, "spot": True}, "us-west1-c")
    pool(V6E, "us-east5-a", "us-east5-b")


def test_few_h100_are_not_sold_on_demand() -> None:
    few = {"machineType": "a3-highgpu-1g"}
    with pytest.raises(CloudError, match="not sold there by on-demand"):
        pool(few, "us-central1-a")
    pool({**few, "flexStart": True}, "us-central1-a")


def test_auto_provisioning_of_chips_needs_a_disk_that_they_boot_from() -> None:
    scaling = {"enabled": True, "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 8}]}
    with pytest.raises(CloudError, match=r"\[pd-standard\] features are not compatible"):
        refusals.check_disk({"clusterAutoscaling": scaling})
    defaults = {"autoProvisioningDefaults": {"diskType": "pd-balanced"}}
    refusals.check_disk({"clusterAutoscaling": {**scaling, **defaults}})
