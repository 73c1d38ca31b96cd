"""A folder on Filestore: its instance, and the claim of pods."""

from typing import Any

import pulumi
import pytest

from gke_inference import SharedFolder
from gke_inference.catalogue.files.filestore import TIERS

ARGS: dict[str, Any] = {
    "capacity_gib": 1280,
    "claim_name": "shared-folder",
    "instance_name": "acme-prod-shared-us-central1",
    "location": "us-central1-b",
    "namespace": "models",
    "network": "projects/acme/global/networks/acme",
    "project": "acme",
    "tier": "zonal",
}
INSTANCE = "gcp:filestore/instance:Instance"


@pytest.fixture
def made(recorder: Any) -> Any:
    recorder.outputs[INSTANCE] = {"networks": [{"ipAddresses": ["10.9.0.2"], "modes": []}]}

    def run(**changes: Any) -> Any:
        args: Any = {**ARGS, **changes}
        recorder.run(lambda: SharedFolder("folder", args).claim_name)
        return recorder

    return run


def test_pods_claim_the_share_of_the_instance(made: Any) -> None:
    found = made()
    instance = found.one(INSTANCE).inputs
    assert (instance["tier"], instance["location"]) == ("ZONAL", "us-central1-b")
    assert instance["fileShares"] == {"capacityGb": 1280, "name": "shared"}
    volume = found.one("kubernetes:core/v1:PersistentVolume").inputs["spec"]
    assert volume["csi"] == {
        "driver": "filestore.csi.storage.gke.io",
        "volumeAttributes": {"ip": "10.9.0.2", "volume": "shared"},
        "volumeHandle": "modeInstance/us-central1-b/acme-prod-shared-us-central1/shared",
    }
    assert volume["claimRef"] == {"name": "shared-folder", "namespace": "models"}
    assert volume["mountOptions"] == ["lookupcache=positive"]
    claim = found.one("kubernetes:core/v1:PersistentVolumeClaim").inputs["spec"]
    assert claim["accessModes"] == volume["accessModes"] == ["ReadWriteMany"]
    assert claim["volumeName"] == "acme-prod-shared-us-central1"
    assert claim["storageClassName"] == volume["storageClassName"]


def test_an_instance_that_grows_leaves_its_volume_and_claim_alone(made: Any) -> None:
    kinds = ("PersistentVolume", "PersistentVolumeClaim")
    first, second = (
        [made(capacity_gib=gib).all(f"kubernetes:core/v1:{kind}")[-1].inputs for kind in kinds]
        for gib in (1024, 2048)
    )
    assert first == second


def test_an_instance_is_protected_and_encrypted_where_asked(made: Any) -> None:
    instance = made(deletion_protection=True, kms_key="projects/acme/key").one(INSTANCE).inputs
    assert instance["deletionProtectionEnabled"] is True
    assert instance["kmsKeyName"] == "projects/acme/key"


@pytest.mark.parametrize(
    ("tier", "capacity", "allowed"),
    [
        ("zonal", 1024, True),
        ("zonal", 1100, False),
        ("zonal", 10_000, False),
        ("regional", 12_800, True),
        ("basic-ssd", 1024, False),
        ("basic-ssd", 2561, True),
    ],
)
def test_each_tier_has_its_capacities(tier: str, capacity: int, allowed: bool) -> None:
    assert TIERS[tier].sizes.allow(capacity) is allowed


def test_a_capacity_that_the_tier_has_not_is_refused(made: Any) -> None:
    with pytest.raises(pulumi.InputPropertyError) as refused:
        made(capacity_gib=1100)
    assert refused.value.property_path == "capacityGib"
    assert refused.value.reason == (
        "must be 1024 to 9984 in steps of 256, or 10240 to 102400 in steps of 2560 for tier zonal, "
        "got 1100"
    )


@pytest.mark.parametrize("more", [["jobs-images", "models"], ["jobs-images", "jobs-images"]])
def test_a_namespace_that_is_named_twice_is_refused(made: Any, more: list[str]) -> None:
    with pytest.raises(pulumi.InputPropertyError) as refused:
        made(more_namespaces=more)
    assert refused.value.property_path == "moreNamespaces[1]"
    assert refused.value.reason == f"must be a namespace that no other entry names, got {more[1]!r}"
