"""Disks for claims: which claim gets one, and where."""

from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.nodes.disks import (
    DRIVER,
    DiskProvisioner,
    csi_node,
    immediate_zones,
    is_waiting,
    volume_of,
)
from twin.wire.kube import KubeError

CLAIM: dict[str, Any] = {
    "metadata": {
        "annotations": {"volume.kubernetes.io/selected-node": "node-1"},
        "name": "work",
        "namespace": "models",
        "uid": "1-2",
    },
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "40Gi"}},
        "storageClassName": "premium-rwo",
    },
}


def storage(*zones: str, **more: Any) -> dict[str, Any]:
    """Return a StorageClass that binds at once, with the zones that it allows."""
    keys = [{"key": "topology.gke.io/zone", "values": [zone]} for zone in zones]
    allowed = [{"matchLabelExpressions": [key]} for key in keys]
    found = {"provisioner": DRIVER, "metadata": {"name": "premium-rwo"}, **more}
    return {**found, "allowedTopologies": allowed} if zones else found


LATE = storage(volumeBindingMode="WaitForFirstConsumer")


@pytest.mark.parametrize(
    ("change", "is_due"),
    [
        ({}, True),
        ({"metadata": {"annotations": {}}}, False),  # the scheduler has chosen no node
        ({"spec": {**CLAIM["spec"], "volumeName": "disk"}}, False),  # it is bound to a disk
        ({"spec": {**CLAIM["spec"], "storageClassName": ""}}, False),  # it asks for a given disk
    ],
)
def test_a_claim_waits_for_a_disk_once_its_pod_has_a_node(change, is_due):
    assert is_waiting({**CLAIM, **change}, LATE) is is_due


def test_a_claim_of_a_class_that_binds_at_once_waits_for_no_pod():
    assert is_waiting({**CLAIM, "metadata": {"annotations": {}}}, storage())


ZONES = ("us-east5-c", "us-east5-a", "us-east5-b")
MULTI_ZONE = {"type": "hyperdisk-ml", "enable-multi-zone-provisioning": "true"}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(storage("us-east5-b"), ("us-east5-b",), id="the only zone of the class"),
        pytest.param(storage("us-east5-b", parameters=MULTI_ZONE), ("us-east5-b",), id="one disk"),
        pytest.param(storage(parameters=MULTI_ZONE), tuple(sorted(ZONES)), id="a disk in each"),
        pytest.param(storage("us-west1-a"), (), id="no zone of the cluster"),
    ],
)
def test_a_disk_that_waits_for_no_pod_is_in_zones_of_its_class(made, expected):
    assert immediate_zones(CLAIM, made, ZONES) == expected


def test_disks_that_wait_for_no_pod_are_spread_over_the_zones():
    claims = [{"metadata": {"name": f"claim-{at}"}, "spec": {}} for at in range(20)]
    assert {immediate_zones(each, storage(), ZONES) for each in claims} == {
        (zone,) for zone in ZONES
    }


def test_the_disks_of_a_volume_in_several_zones_have_one_handle():
    spec = volume_of(CLAIM, "acme", ("us-east5-a", "us-east5-b"))["spec"]
    assert spec["csi"]["volumeHandle"] == "projects/acme/zones/multi-zone/disks/pvc-1-2"
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["us-east5-a", "us-east5-b"]


@pytest.mark.parametrize(
    ("machine_type", "limit"),
    [
        ("e2-medium", 15),
        ("e2-standard-4", 127),
        ("ct6e-standard-4t", 127),
        ("c4-standard-8", 31),
        ("c4d-standard-384", 127),
        ("n4-standard-80", 31),
        ("a4x-highgpu-4g", 127),
        ("c3-standard-192-metal", 15),
    ],
)
def test_a_node_reports_how_many_disks_it_can_attach(machine_type, limit):
    labels = {"node.kubernetes.io/instance-type": machine_type}
    found = csi_node({"metadata": {"name": "n", "uid": "u", "labels": labels}, "spec": {}})
    assert found["spec"]["drivers"][0]["allocatable"] == {"count": limit}
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_the_disk_is_in_the_zone_of_the_node_and_goes_with_its_claim():
    made = volume_of(CLAIM, "acme", ("us-east5-a",))
    assert made["metadata"]["name"] == "pvc-1-2"
    spec = made["spec"]
    assert spec["csi"]["volumeHandle"] == "projects/acme/zones/us-east5-a/disks/pvc-1-2"
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert spec["capacity"] == {"storage": "40Gi"}
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (only,) = term["matchExpressions"]
    assert (only["key"], only["values"]) == ("topology.gke.io/zone", ["us-east5-a"])
    assert spec["claimRef"]["uid"] == "1-2"


class Kube:
    """The calls of a provisioner, and the nodes and classes that exist."""

    def __init__(self):
        self.applied, self.deleted, self.patched = [], [], []
        self.refused = set()

    def get(self, path):
        name = path.rsplit("/", 1)[-1]
        if path == "/api/v1/nodes/node-1":
            return {"metadata": {"labels": {"topology.kubernetes.io/zone": "us-east5-a"}}}
        raise KubeError(404, "NotFound", f"{name} not found", {})

    def apply(self, obj, *, manager):
        assert manager == DRIVER
        self.applied.append(obj["spec"]["claimRef"]["name"])

    def patch(self, path, body, kind):
        assert kind == "merge"
        self.patched.append((path, body))

    def delete(self, path):
        name = path.rsplit("/", 1)[-1]
        if name in self.refused:
            raise KubeError(409, "Conflict", "no", {})
        self.deleted.append(name)


def claim(name: str, node: str = "node-1", **spec: Any) -> dict[str, Any]:
    metadata = {**CLAIM["metadata"], "name": name, "uid": name}
    metadata["annotations"] = {"volume.kubernetes.io/selected-node": node}
    return {"metadata": metadata, "spec": {**CLAIM["spec"], **spec}}


def scanned(claims: list[dict[str, Any]], volumes: list[dict[str, Any]], refused=()) -> Kube:
    """Return the calls of one scan."""
    kube: Any = Kube()
    kube.refused = set(refused)
    provisioner: Any = DiskProvisioner.__new__(DiskProvisioner)
    provisioner._ctx = SimpleNamespace(kube=kube, spec=SimpleNamespace(project="acme"))
    provisioner._claims = SimpleNamespace(items=lambda: claims)
    provisioner._volumes = SimpleNamespace(items=lambda: volumes)
    provisioner._classes = SimpleNamespace(items=lambda: [LATE])
    provisioner.scan()
    return kube


def released(name: str, driver: str = DRIVER) -> dict[str, Any]:
    annotations = {"pv.kubernetes.io/provisioned-by": driver}
    return {"metadata": {"annotations": annotations, "name": name}, "status": {"phase": "Released"}}


def test_what_fails_for_one_claim_stops_no_other():
    kube = scanned([claim("lost", storageClassName="gone"), claim("work")], [])
    assert kube.applied == ["work"]


def test_the_scheduler_chooses_again_if_the_node_of_a_claim_is_gone():
    kube = scanned([claim("moved", node="node-9"), claim("work")], [])
    assert kube.applied == ["work"]
    ((path, body),) = kube.patched
    assert path == "/api/v1/namespaces/models/persistentvolumeclaims/moved"
    assert body == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}


def test_a_file_system_for_several_writing_nodes_gets_no_disk():
    many: dict[str, Any] = {"accessModes": ["ReadWriteMany"]}
    kube = scanned([claim("many", **many), claim("block", volumeMode="Block", **many)], [])
    assert kube.applied == ["block"]


def test_a_released_disk_of_the_driver_is_deleted_although_another_one_cannot_be():
    volumes = [released("stuck"), released("old"), released("theirs", "filestore")]
    assert scanned([], volumes, refused=["stuck"]).deleted == ["old"]
