"""A folder on Managed Lustre: its instance, the claims of pods, and the peering that reaches it."""

from typing import Any

import pulumi
import pytest

from gke_inference import LustreFolder, PrivateServices
from gke_inference.catalogue.files.lustre import SIZES

ARGS: dict[str, Any] = {
    "capacity_gib": 18_000,
    "claim_name": "shared-folder",
    "instance_name": "acme-prod-lustre-us-central1",
    "location": "us-central1-b",
    "mb_per_second_per_tib": 500,
    "namespace": "models",
    "network": "projects/acme/global/networks/acme",
    "project": "acme",
}
SERVICES: dict[str, Any] = {
    "network": "projects/acme/global/networks/acme",
    "network_name": "acme",
    "project": "acme",
    "services_cidr": "10.64.0.0/20",
}
INSTANCE = "gcp:lustre/instance:Instance"


@pytest.fixture
def made(recorder: Any) -> Any:
    recorder.outputs[INSTANCE] = {"mountPoint": "10.64.0.2@tcp:/shared"}

    def run(**changes: Any) -> Any:
        args: Any = {**ARGS, **changes}
        recorder.run(lambda: LustreFolder("folder", args).claim_name)
        return recorder

    return run


def test_pods_claim_the_file_system_of_the_instance(made: Any) -> None:
    found = made()
    instance = found.one(INSTANCE).inputs
    assert instance["capacityGib"] == "18000"
    assert instance["perUnitStorageThroughput"] == "500"
    assert (instance["location"], instance["filesystem"]) == ("us-central1-b", "shared")
    assert "gkeSupportEnabled" not in instance
    volume = found.one("kubernetes:core/v1:PersistentVolume").inputs["spec"]
    assert volume["csi"] == {
        "driver": "lustre.csi.storage.gke.io",
        "volumeAttributes": {"filesystem": "shared", "ip": "10.64.0.2"},
        "volumeHandle": "acme/us-central1-b/acme-prod-lustre-us-central1",
    }
    assert "mountOptions" not in volume
    assert volume["claimRef"] == {"name": "shared-folder", "namespace": "models"}
    claim = found.one("kubernetes:core/v1:PersistentVolumeClaim").inputs["spec"]
    assert claim["accessModes"] == volume["accessModes"] == ["ReadWriteMany"]
    assert claim["volumeName"] == "acme-prod-lustre-us-central1"


def test_each_namespace_has_a_claim_on_the_same_file_system(made: Any) -> None:
    volumes = made(more_namespaces=["jobs-images"]).all("kubernetes:core/v1:PersistentVolume")
    names = [each.inputs["metadata"]["name"] for each in volumes]
    assert names == [ARGS["instance_name"], f"{ARGS['instance_name']}-jobs-images"]
    assert len({each.inputs["spec"]["csi"]["volumeHandle"] for each in volumes}) == 1


@pytest.mark.parametrize(
    ("tier", "capacity", "allowed"),
    [
        (125, 72_000, True),
        (125, 36_000, False),
        (250, 36_000, True),
        (500, 18_000, True),
        (500, 27_000, False),
        (1000, 9000, True),
        (1000, 1_539_000, False),
        (1000, 1_584_000, True),
        (1000, 10_008_000, True),
        (1000, 10_080_000, False),
    ],
)
def test_each_tier_has_its_capacities(tier: int, capacity: int, allowed: bool) -> None:
    assert SIZES[tier].allow(capacity) is allowed


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        (
            {"capacity_gib": 20_000},
            "capacityGib",
            "must be 18000 to 3060000 in steps of 18000, or 3168000 to 20016000 in steps of "
            "144000 for 500 MB/s per TiB, got 20000",
        ),
        (
            {"mb_per_second_per_tib": 300.0},
            "mbPerSecondPerTib",
            "must be one of 125, 250, 500, 1000, got 300",
        ),
        (
            {"more_namespaces": ["models"]},
            "moreNamespaces[0]",
            "must be a namespace that no other entry names, got 'models'",
        ),
    ],
)
def test_what_lustre_does_not_have_is_refused(
    made: Any, changes: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(pulumi.InputPropertyError) as refused:
        made(**changes)
    assert (refused.value.property_path, refused.value.reason) == (path, reason)


def test_the_peering_takes_a_range_and_lets_lustre_answer(recorder: Any) -> None:
    args: Any = SERVICES
    recorder.run(lambda: PrivateServices("services", args).range_name)
    address = recorder.one("gcp:compute/globalAddress:GlobalAddress").inputs
    assert (address["address"], address["prefixLength"]) == ("10.64.0.0", 20)
    assert (address["purpose"], address["addressType"]) == ("VPC_PEERING", "INTERNAL")
    connection = recorder.one("gcp:servicenetworking/connection:Connection").inputs
    assert connection["reservedPeeringRanges"] == ["acme-services"]
    assert connection["service"] == "servicenetworking.googleapis.com"
    firewall = recorder.one("gcp:compute/firewall:Firewall").inputs
    assert firewall["allows"] == [{"ports": ["988"], "protocol": "tcp"}]
    assert firewall["sourceRanges"] == ["10.64.0.0/20"]


@pytest.mark.parametrize(
    ("cidr", "reason"),
    [
        ("10.64.0.0/24", "must be /23 or larger, got 10.64.0.0/24"),
        ("10.64.0.1/20", "must be an IPv4 range such as 10.64.0.0/20, got '10.64.0.1/20'"),
    ],
)
def test_a_range_that_holds_no_instance_is_refused(recorder: Any, cidr: str, reason: str) -> None:
    args: Any = {**SERVICES, "services_cidr": cidr}
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: PrivateServices("services", args).range_name)
    assert (refused.value.property_path, refused.value.reason) == ("servicesCidr", reason)
