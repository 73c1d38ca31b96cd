"""Published devices, allocated claims, and the nodes that are created for them."""

from dataclasses import replace
from typing import Any

import pytest

from gke_inference.operators.device_drivers import driver_objects
from twin.cluster.autoscaler.plan import Scan, plan
from twin.cluster.autoscaler.pods import Pod, parse, refusal
from twin.cluster.autoscaler.rungs import parse_class, room_of
from twin.cluster.devices.devices import requests_of
from twin.cluster.devices.drivers import slices_of
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.pool_spec import parse as parse_pool
from twin.world.capacity import GRANTED, Answer
from twin.world.machines import machine

ZONE = "us-central1-b"
V6E = 'device.attributes["tpu.google.com"].tpuGen == "v6e"'
EITHER = [
    {
        "allocationMode": "All",
        "deviceClassName": "tpu.google.com",
        "name": "tpu",
        "selectors": [{"cel": {"expression": V6E}}],
    },
    {"allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu.nvidia.com", "name": "g"},
]
TPU_LABELS = {"cloud.google.com/gke-tpu-dra-driver": "true"}
GPU_LABELS = {
    "cloud.google.com/gke-nvidia-gpu-dra-driver": "true",
    "gke-no-default-nvidia-gpu-device-plugin": "true",
    "nvidia.com/gpu.present": "true",
}
DISABLED = nodes.DRIVER_DISABLED


def tpu(labels: dict[str, str] = TPU_LABELS, name: str = "ct6e-standard-4t") -> NodeShape:
    return NodeShape(machine(name), "v6e", topology="2x2", labels=dict(labels))


def gpu(labels: dict[str, str] = GPU_LABELS, driver: str = DISABLED) -> NodeShape:
    shape = NodeShape(machine("g2-standard-12"), "l4", labels=dict(labels))
    return replace(shape, driver_version=driver)


def node(shape: NodeShape, name: str = "n") -> dict[str, Any]:
    made = nodes.build(shape, name=name, zone=ZONE, project="p")
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def running(kind: str, role: str = "plugin", on: str = "n", ready: str = "True") -> dict[str, Any]:
    spec = driver_objects(kind)[role]["spec"]["template"]["spec"]
    return {
        "metadata": {"name": role, "namespace": "drivers"},
        "spec": {**spec, "nodeName": on},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


INSTALLED = [running("gpu"), running("gpu", "installer")]


def claiming(ways: list[dict[str, Any]] = EITHER, uid: str = "1") -> Pod:
    template = {"spec": {"spec": {"devices": {"requests": [{"firstAvailable": ways}]}}}}
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}]
    body = {
        "metadata": {"uid": uid, "namespace": "ns", "name": f"p{uid}"},
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": claims,
            "tolerations": [{"operator": "Exists"}],
        },
    }
    return parse(body, templates={"ns/t": template})


def test_nodes_whose_device_plugin_is_off_count_no_chips_and_keep_their_taint():
    assert "google.com/tpu" not in nodes.allocatable(tpu())
    assert nodes.allocatable(tpu({}))["google.com/tpu"] == "4"
    assert "nvidia.com/gpu" not in nodes.allocatable(gpu())
    assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"} in nodes.taints(
        gpu()
    )


def test_a_node_without_a_driver_of_gke_has_no_label_of_its_version():
    label = "cloud.google.com/gke-gpu-driver-version"
    assert label not in nodes.labels(gpu(), ZONE)
    assert nodes.labels(gpu(driver="latest"), ZONE)[label] == "latest"


def test_the_tpu_driver_publishes_each_chip_with_its_generation():
    (body,) = slices_of([node(tpu())], [running("tpu")]).values()
    assert body["metadata"]["name"] == "n-tpu.google.com"
    assert body["spec"]["nodeName"] == "n"
    devices = body["spec"]["devices"]
    assert [each["name"] for each in devices] == ["0", "1", "2", "3"]
    assert {each["attributes"]["tpuGen"]["string"] for each in devices} == {"v6e"}


def test_the_gpu_driver_publishes_what_the_gpu_is():
    (body,) = slices_of([node(gpu())], INSTALLED).values()
    (device,) = body["spec"]["devices"]
    assert device["name"] == "gpu-0"
    assert device["attributes"]["productName"] == {"string": "NVIDIA L4"}
    assert device["attributes"]["type"] == {"string": "gpu"}
    assert device["capacity"] == {"memory": {"value": "24Gi"}}


@pytest.mark.parametrize(
    ("shape", "pods"),
    [
        (tpu(), []),
        (tpu(), [running("tpu", on="another")]),
        (tpu(), [running("tpu", ready="False")]),
        (tpu({}), [running("tpu")]),
        (gpu(), [running("gpu")]),
        (gpu(), [running("gpu", "installer")]),
        (gpu(driver="latest"), INSTALLED),
        (gpu({"cloud.google.com/gke-nvidia-gpu-dra-driver": "true"}), INSTALLED),
    ],
    ids=[
        "no driver",
        "driver on another node",
        "driver not ready",
        "device plugin still on",
        "no NVIDIA driver",
        "no DRA driver",
        "driver by GKE",
        "GPU plugin still on",
    ],
)
def test_without_all_that_a_driver_needs_there_are_no_devices(shape, pods):
    assert slices_of([node(shape)], pods) == {}


def test_a_claim_takes_a_whole_tpu_node_and_leaves_nothing_to_the_next():
    room = room_of(tpu(), ZONE)
    assert refusal(claiming(), room) is None
    room.take(claiming())
    assert room.devices_taken == {"tpu.google.com": 4.0}
    assert refusal(claiming(uid="2"), room) == "cannot allocate all claims"


def test_a_claim_fits_a_node_by_its_labels_alone():
    assert refusal(claiming(), room_of(gpu(), ZONE)) is None
    unlabeled = {key: "true" for key in GPU_LABELS if "dra-driver" not in key}
    assert refusal(claiming(), room_of(gpu(unlabeled), ZONE)) == "cannot allocate all claims"


def test_a_selector_that_is_not_understood_brings_up_nothing():
    odd = {**EITHER[0], "selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}]}
    assert refusal(claiming([odd]), room_of(tpu(), ZONE)) == "cannot allocate all claims"


def test_another_generation_does_not_fit():
    v5e = {
        **EITHER[0],
        "selectors": [{"cel": {"expression": V6E.replace("v6e", "v5litepod")}}],
    }
    assert refusal(claiming([v5e]), room_of(tpu(), ZONE)) == "cannot allocate all claims"


def test_a_claim_whose_template_is_not_there_fits_nowhere():
    body = {
        "metadata": {"uid": "1", "namespace": "ns", "name": "p"},
        "spec": {
            "containers": [],
            "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    assert refusal(parse(body), room_of(tpu(), ZONE)) == "cannot allocate all claims"


def test_a_request_for_exactly_some_devices_is_one_alternative():
    exactly = {"allocationMode": "ExactCount", "count": 2, "deviceClassName": "gpu.nvidia.com"}
    ((way,),) = requests_of({"devices": {"requests": [{"name": "g", "exactly": exactly}]}})
    assert (way.device_class, way.count, way.is_clear) == ("gpu.nvidia.com", 2, True)


def pool(name: str, machine_type: str, labels: dict[str, str], **config: Any):
    inputs = {
        "autoscaling": {"maxNodeCount": 2, "minNodeCount": 0},
        "nodeConfig": {"labels": labels, "machineType": machine_type, **config},
    }
    return parse_pool({"inputs": inputs, "name": name, "zones": [ZONE]})


POOLS = {
    "v6e": pool("v6e", "ct6e-standard-4t", TPU_LABELS),
    "l4": pool(
        "l4",
        "g2-standard-12",
        GPU_LABELS,
        guestAccelerators=[
            {
                "count": 1,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "INSTALLATION_DISABLED"},
                "type": "nvidia-l4",
            }
        ],
    ),
}


def scan(answers: list[Answer], cooling: dict[int, float] | None = None, *, made: bool = False):
    rules: list[dict[str, Any]] = [{"nodepools": ["v6e"]}, {"nodepools": ["l4"]}]
    if made:
        rules = [{"tpu": {"type": "tpu-v6e-slice", "count": 4, "topology": "2x2"}}]
    body = {
        "metadata": {"name": "either"},
        "spec": {
            "nodePoolAutoCreation": {"enabled": made},
            "priorities": rules,
            "whenUnsatisfiable": "DoNotScaleUp",
        },
    }
    klass = parse_class(body, (ZONE,), 600.0)

    def ask(found):
        return (answers.pop(0) if answers else GRANTED), found[0]

    seen = Scan(klass, POOLS, {}, cooling or {}, 100.0, (ZONE,), ask)
    return plan(seen, lambda _: klass.rungs, [claiming()], [])


def test_a_pool_grows_from_zero_for_a_claim_and_the_next_one_once_the_first_is_out():
    (verdict,) = scan([])
    assert verdict.offer is not None
    assert (verdict.kind, verdict.offer.rung.title) == ("requested", "pools v6e")
    (verdict,) = scan([Answer("stockout", "ZONE_RESOURCE_POOL_EXHAUSTED", "none left")])
    assert verdict.kind == "failed"
    (verdict,) = scan([], {0: 400.0})
    assert verdict.offer is not None
    assert (verdict.kind, verdict.offer.rung.title) == ("requested", "pools l4")


def test_no_pool_is_made_for_a_claim():
    (verdict,) = scan([], made=True)
    assert verdict.kind == "refused"
    assert "node pool auto-creation supports no device claims" in verdict.message


INTERFACES = [
    {
        "exactly": {
            "allocationMode": "ExactCount",
            "count": 8,
            "deviceClassName": "mrdma.google.com",
        },
        "name": "rdma",
    }
]
NETWORKS = {
    "cloud.google.com/gke-networking-dra-driver": "true",
    "gke.networks.io/accelerator-network-profile": "auto",
}


def ultra(labels: dict[str, str] = NETWORKS) -> NodeShape:
    return NodeShape(machine("a3-ultragpu-8g"), "h200", labels=dict(labels))


def interface_names(shape: NodeShape) -> list[str]:
    found = slices_of([node(shape)], [])
    return [each["name"] for body in found.values() for each in body["spec"]["devices"]]


def test_gke_publishes_the_rdma_interfaces_of_a_node_without_a_pod_of_a_driver():
    [body] = slices_of([node(ultra())], []).values()
    assert body["spec"]["driver"] == "dra.net"
    assert body["spec"]["devices"][7]["name"] == "gpu7rdma0"
    assert body["spec"]["devices"][7]["attributes"]["dra.net/rdma"] == {"bool": True}


@pytest.mark.parametrize("missing", sorted(NETWORKS))
def test_without_networks_or_their_driver_there_are_no_interfaces(missing):
    labels = {key: value for key, value in NETWORKS.items() if key != missing}
    assert interface_names(ultra(labels)) == []
    assert len(interface_names(ultra())) == 8


def test_two_pods_do_not_share_the_interfaces_of_a_node():
    room = room_of(ultra(), ZONE)
    first = requests_of({"devices": {"requests": INTERFACES}})
    assert room.claimed(_claiming(first)) == {"mrdma.google.com": 8.0}
    room.take(_claiming(first))
    assert room.claimed(_claiming(first)) is None


def test_nine_interfaces_are_more_than_a_node_has():
    nine = [{**INTERFACES[0], "exactly": {**INTERFACES[0]["exactly"], "count": 9}}]
    requests = requests_of({"devices": {"requests": nine}})
    assert room_of(ultra(), ZONE).claimed(_claiming(requests)) is None


def _claiming(requests: tuple[Any, ...]) -> Pod:
    return Pod("u", "ns", "p", {}, {}, (), (), None, devices=requests)


def test_a_class_with_the_driver_of_networks_creates_nodes_for_claims_of_interfaces():
    rule = {
        "acceleratorNetworkProfile": "auto",
        "gpu": {"count": 8, "type": "nvidia-h200-141gb"},
        "location": {"zones": [ZONE]},
        "machineType": "a3-ultragpu-8g",
        "spot": True,
    }
    requests = requests_of({"devices": {"requests": INTERFACES}})
    tolerant = (("", "Exists", "", ""),)
    pod = Pod("u", "ns", "p", {"nvidia.com/gpu": 8.0}, {}, (), tolerant, "c", devices=requests)
    outcomes: list[str] = []
    for config in ({"dra": {"networking": {"enabled": True}}}, {}):
        body = {
            "metadata": {"name": "c"},
            "spec": {
                "nodePoolAutoCreation": {"enabled": True},
                "nodePoolConfig": config,
                "priorities": [rule],
                "whenUnsatisfiable": "DoNotScaleUp",
            },
        }
        klass = parse_class(body, (ZONE,), 600.0)
        scan = Scan(klass, {}, {}, {}, 100.0, (ZONE,), lambda found: (GRANTED, found[0]))
        [verdict] = plan(scan, lambda _, klass=klass: klass.rungs, [pod], [])
        outcomes.append(verdict.kind)
    assert outcomes == ["requested", "refused"]
