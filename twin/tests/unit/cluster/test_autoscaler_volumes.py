"""Pods with volumes: the nodes that the autoscaler creates for them, and why it creates none."""

from typing import Any

import pytest

from twin.cluster.autoscaler.plan import Scan, Verdict, plan
from twin.cluster.autoscaler.pods import Pod, parse, refusal
from twin.cluster.autoscaler.rungs import Offer, parse_class, room_of
from twin.cluster.autoscaler.volumes import Volumes
from twin.cluster.nodes.disks import DRIVER
from twin.cluster.nodes.node_objects import NodeShape
from twin.world.capacity import GRANTED
from twin.world.machines import machine

ZONES = ("us-central1-a", "us-central1-b")
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
BIND = "node(s) didn't find available persistent volumes to bind"
LATE = "WaitForFirstConsumer"


def claim(volume: str | None = None, *, storage: str = "", **more: Any) -> dict[str, Any]:
    """Return a claim, bound if it has a volume."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage}
    resources = {"resources": {"requests": {"storage": "10Gi"}}}
    metadata = {"name": "data", "namespace": "ns", "annotations": bound, **more}
    return {"metadata": metadata, "spec": {**spec, **resources, "volumeName": volume}}


def volume(*zones: str, key: str = "topology.gke.io/zone", **spec: Any) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [*zones]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if zones else {}
    return {
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "storageClassName": "",
            **affinity,
            **spec,
        },
        "status": {"phase": "Available"},
    }


def storage(binding: str, *zones: str, provisioner: str = DRIVER) -> dict[str, Any]:
    key = {"key": "topology.gke.io/zone", "values": [*zones]}
    allowed = {"allowedTopologies": [{"matchLabelExpressions": [key]}]} if zones else {}
    return {
        "metadata": {"name": "own"},
        "provisioner": provisioner,
        "volumeBindingMode": binding,
        **allowed,
    }


def pod(volumes: Volumes, source: dict[str, Any] | None = None) -> Pod:
    mounted = source or {"persistentVolumeClaim": {"claimName": "data"}}
    return parse(
        {
            "metadata": {"uid": "1", "namespace": "ns", "name": "p"},
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "v", **mounted}],
            },
        },
        volumes=volumes,
    )


def decide(waiting: Pod, *rules: dict[str, Any]) -> tuple[Verdict, list[str]]:
    """Return the decision for a pod and the zones that were requested."""
    body = {
        "metadata": {"name": "llm"},
        "spec": {
            "whenUnsatisfiable": "DoNotScaleUp",
            "nodePoolAutoCreation": {"enabled": True},
            "priorities": list(rules) or [{"machineType": "e2-standard-4"}],
        },
    }
    klass = parse_class(body, ZONES, 600.0)
    asked: list[str] = []

    def ask(found: Any) -> Any:
        asked.extend(offer.zone for offer in found)
        first: Offer = found[0]
        return GRANTED, first

    scan = Scan(klass, {}, {}, {}, 100.0, ZONES, ask)
    (verdict,) = plan(scan, lambda _: klass.rungs, [waiting], [])
    return verdict, asked


@pytest.mark.parametrize(
    ("zones", "asked"),
    [
        pytest.param(("us-central1-b",), ["us-central1-b"], id="a disk in one zone"),
        pytest.param(ZONES, list(ZONES), id="Hyperdisk ML with a disk in each zone"),
        pytest.param((), list(ZONES), id="a share that all zones mount"),
    ],
)
def test_a_pod_with_a_volume_gets_a_node_in_a_zone_of_the_volume(zones, asked):
    verdict, found = decide(pod(Volumes([claim("disk")], [volume(*zones)])))
    assert (verdict.kind, found) == ("requested", asked)


def test_a_rung_in_other_zones_than_the_volume_is_passed_over():
    bound = pod(Volumes([claim("disk")], [volume("us-central1-b")]))
    other = {"machineType": "e2-standard-4", "location": {"zones": ["us-central1-a"]}}
    verdict, asked = decide(bound, other, {"machineType": "e2-standard-8"})
    assert verdict.offer is not None
    assert (verdict.offer.rung.index, asked) == (1, ["us-central1-b"])
    verdict, asked = decide(bound, other)
    assert (verdict.kind, asked) == ("refused", [])
    assert verdict.message == f"pod didn't trigger scale-up: 1 {AFFINITY}"


def test_a_local_volume_gets_no_new_node():
    local = volume("node-1", key="kubernetes.io/hostname")
    verdict, _ = decide(pod(Volumes([claim("disk")], [local])))
    assert verdict.message == f"pod didn't trigger scale-up: 1 {AFFINITY}"


@pytest.mark.parametrize(
    ("volumes", "why"),
    [
        pytest.param(Volumes(), 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(Volumes([claim()]), UNBOUND, id="no class and no volume"),
        pytest.param(
            Volumes([claim(storage="own")], [], [storage("Immediate")]), UNBOUND, id="immediate"
        ),
        pytest.param(
            Volumes([claim("disk", annotations={})], [volume()]), UNBOUND, id="not yet bound"
        ),
        pytest.param(
            Volumes([claim("disk")]),
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="no volume",
        ),
        pytest.param(
            Volumes([claim("disk", deletionTimestamp="2026-11-29T00:00:00Z")], [volume()]),
            'persistentvolumeclaim "data" is being deleted',
            id="deleted claim",
        ),
        pytest.param(
            Volumes(
                [claim(storage="own")],
                [],
                [storage(LATE, provisioner="kubernetes.io/no-provisioner")],
            ),
            BIND,
            id="nobody creates a volume",
        ),
        pytest.param(
            Volumes([claim(storage="own")], [], [storage(LATE, "us-east5-a")]),
            BIND,
            id="class of other zones",
        ),
        pytest.param(
            Volumes(
                [
                    claim(
                        storage="own", annotations={"volume.kubernetes.io/selected-node": "node-1"}
                    )
                ],
                [],
                [storage(LATE)],
            ),
            BIND,
            id="another node was chosen",
        ),
    ],
)
def test_a_pod_whose_claim_cannot_be_used_gets_no_node_and_the_reason(volumes, why):
    verdict, asked = decide(pod(volumes))
    assert (verdict.kind, asked) == ("refused", [])
    assert verdict.message == f"pod didn't trigger scale-up: 1 {why}"


def test_an_ephemeral_volume_waits_for_its_claim():
    verdict, _ = decide(pod(Volumes(), {"ephemeral": {}}))
    assert verdict.message == (
        "pod didn't trigger scale-up: 1 waiting for ephemeral volume controller to create the "
        'persistentvolumeclaim "p-v"'
    )


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        pytest.param(storage(LATE), list(ZONES), id="all zones"),
        pytest.param(storage(LATE, "us-central1-b"), ["us-central1-b"], id="zones of the class"),
    ],
)
def test_a_claim_that_waits_for_its_pod_follows_the_zones_of_its_class(made, asked):
    verdict, found = decide(pod(Volumes([claim(storage="own")], [], [made])))
    assert (verdict.kind, found) == ("requested", asked)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        pytest.param({}, "requested", id="suits"),
        pytest.param({"capacity": {"storage": "9Gi"}}, "refused", id="too small"),
        pytest.param({"accessModes": ["ReadOnlyMany"]}, "refused", id="read-only"),
        pytest.param({"claimRef": {"namespace": "ns", "name": "x"}}, "refused", id="taken"),
        pytest.param({"volumeMode": "Block"}, "refused", id="block"),
    ],
)
def test_a_claim_that_waits_for_its_pod_takes_a_free_volume_and_its_zone(spec, kind):
    free = volume("us-central1-b", **{"storageClassName": "own", **spec})
    own = storage(LATE, provisioner="kubernetes.io/no-provisioner")
    verdict, asked = decide(pod(Volumes([claim(storage="own")], [free], [own])))
    assert verdict.kind == kind
    assert asked == (["us-central1-b"] if kind == "requested" else [])


def test_a_zone_in_the_labels_of_a_volume_counts_as_well():
    labelled = volume()
    labelled["metadata"]["labels"] = {"topology.kubernetes.io/zone": "us-central1-b__us-central1-c"}
    verdict, asked = decide(pod(Volumes([claim("disk")], [labelled])))
    assert (verdict.kind, asked) == ("requested", ["us-central1-b"])


def test_a_node_takes_as_many_disks_as_its_machine_attaches_and_shares_one_between_pods():
    shape = NodeShape(machine=machine("c4d-standard-2"), pool="p")  # three beside the boot disk
    node = room_of(shape, ZONES[0])

    def with_disk(name: str) -> Pod:
        handle = {"driver": DRIVER, "volumeHandle": name}
        return pod(Volumes([claim("disk")], [volume(csi=handle)]))

    for name in ("a", "b", "c"):
        node.take(with_disk(name))
    node.free["cpu"] = 2.0
    assert refusal(with_disk("d"), node) == "node(s) exceed max volume count"
    assert refusal(with_disk("a"), node) is None
