"""Disks for claims: which claim gets one, and where."""

from typing import Any

import pytest

from twin.cluster.nodes.disks import is_waiting, volume_of

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
    assert is_waiting({**CLAIM, **change}) is is_due


def test_the_disk_is_in_the_zone_of_the_node_and_goes_with_its_claim():
    made = volume_of(CLAIM, "acme", "us-east5-a")
    assert made["metadata"]["name"] == "pvc-1-2"
    spec = made["spec"]
    assert spec["csi"]["volumeHandle"] == "projects/acme/zones/us-east5-a/disks/pvc-1-2"
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert spec["capacity"] == {"storage": "40Gi"}
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (only,) = term["matchExpressions"]
    assert (only["key"], only["values"]) == ("topology.gke.io/zone", ["us-east5-a"])
    assert spec["claimRef"]["uid"] == "1-2"
