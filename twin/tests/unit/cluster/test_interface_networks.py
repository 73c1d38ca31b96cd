"""Networks of the interfaces of nodes (rules network.objects, .pods, .tcpx and .tcpxo)."""

import json
from typing import Any

import pytest

from twin.cluster.agent.launching.interfaces import InitializingError, network_of_pod
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.interfaces import (
    Cloud,
    Condition,
    attached,
    interfaces_of,
    network_conditions,
    parameters_condition,
    resources,
)
from twin.cluster.nodes.pool_spec import parse

CLOUD = Cloud(
    "net", frozenset({"net", "n1", "n2"}), {"s1": "192.168.0.0/26", "nodes": "10.0.0.0/20"}
)


def parameters(name: str = "tcpxo-1", created: str = "2026-11-26T00:00:00Z", **spec: Any) -> Any:
    given = {"deviceMode": "NetDevice", "vpc": "n1", "vpcSubnet": "s1", **spec}
    return {
        "metadata": {"creationTimestamp": created, "name": name},
        "spec": {key: value for key, value in given.items() if value is not None},
    }


def network(name: str = "tcpxo-1", *, ready: bool = True, kind: str = "Device") -> Any:
    condition = {"status": "True" if ready else "False", "type": "Ready"}
    return {
        "metadata": {"name": name},
        "spec": {"parametersRef": {"name": name}, "type": kind},
        "status": {"conditions": [condition]},
    }


def test_parameters_of_an_existing_subnet_are_ready():
    one = parameters()
    assert parameters_condition(one, [one], CLOUD) == Condition("Ready", True, "GNPReady")


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"vpcSubnet": None},
            "GNPConfigInvalid",
            "NetworkAttachment or (VPC + VPCSubnet) must be specified",
        ),
        (
            {"deviceMode": None},
            "SecondaryRangeAndDeviceModeUnspecified",
            "One of PodIPV4Ranges or DeviceMode must be specified.",
        ),
        (
            {"podIPv4Ranges": {"rangeNames": ["pods"]}},
            "DeviceModeCantBeUsedWithSecondaryRange",
            "PodIPv4Ranges and DeviceMode can not be specified at the same time",
        ),
        ({"vpcSubnet": "s9"}, "SubnetNotFound", "subnet: s9 not found in VPC: n1"),
        ({"vpc": "n9"}, "VPCNotFound", "VPC: n9 not found"),
        (
            {"vpc": "net", "vpcSubnet": "nodes"},
            "DeviceModeCantUseDefaultVPC",
            "GNP with deviceMode can't reference the default VPC",
        ),
    ],
)
def test_parameters_that_gkes_controller_refuses_say_why(spec: Any, reason: str, message: str):
    one = parameters(**spec)
    assert parameters_condition(one, [one], CLOUD) == Condition("Ready", False, reason, message)


def test_the_older_of_two_parameters_has_the_subnet():
    one, two = parameters(), parameters("copy", "2026-11-26T00:00:01Z")
    assert parameters_condition(one, [one, two], CLOUD).is_true
    refused = parameters_condition(two, [one, two], CLOUD)
    assert refused.reason == "DeviceModeSubnetAlreadyInUse"
    assert refused.message.endswith("is already in use by 'tcpxo-1'")


def test_a_network_follows_its_parameters():
    assert network_conditions(network(), {}) is None
    found = network_conditions(network(), {"tcpxo-1": parameters()})
    assert found is not None
    assert [each.is_true for each in found] == [True, True]
    unfit = {"tcpxo-1": parameters(deviceMode=None)}
    found = network_conditions(network(), unfit)
    assert found is not None
    assert found[0].reason == "DeviceModeMissing"


def test_a_node_offers_one_interface_of_each_ready_device_network_that_it_is_on():
    sets = [parameters(), parameters("other", vpc="n2", vpcSubnet="s2")]
    networks = [network(), network("other", ready=False)]
    assert attached(networks, sets) == {("n1", "s1"): "tcpxo-1"}
    assert attached([network(kind="L3")], sets) == {}
    assert resources(["tcpxo-1"]) == {"networking.gke.io.networks/tcpxo-1.IP": "1"}


def pool() -> Any:
    config = [{"network": "projects/acme/global/networks/n1", "subnetwork": "s1"}]
    inputs = {
        "networkConfig": {"additionalNodeNetworkConfigs": config},
        "nodeConfig": {"machineType": "a3-megagpu-8g"},
    }
    return parse({"name": "p", "inputs": inputs, "zones": ["us-central1-b"]}).shape


def test_nodes_of_a_pool_know_what_their_interfaces_are_on():
    node = nodes.build(pool(), name="a", zone="us-central1-b", project="acme")
    assert interfaces_of(node) == [("n1", "s1")]
    assert not any("networks/" in name for name in node["status"]["allocatable"])


class OnNode:
    """An API server whose only list is the pods of a node."""

    def __init__(self, *images: str) -> None:
        ready = {"conditions": [{"status": "True", "type": "Ready"}]}
        self._pods = [
            {"spec": {"containers": [{"image": each}]}, "status": ready} for each in images
        ]

    def list(self, path: str, **query: str) -> list[Any]:
        assert (path, query) == ("/api/v1/pods", {"field_selector": "spec.nodeName=a"})
        return self._pods


REGISTRY = "us-docker.pkg.dev/gce-ai-infra"
PLUGIN = f"{REGISTRY}/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1"
PLUGIN_OF_TCPX = f"{REGISTRY}/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev:v3"
INJECTOR = "gcr.io/gke-release/nri-device-injector@sha256:00"
DAEMON = f"{REGISTRY}/gpudirect-tcpxo/tcpgpudmarxd-dev:v1"


DEVICES = [
    *(f"nvidia{at}" for at in range(8)),
    "nvidiactl",
    "nvidia-uvm",
    "dmabuf_import_helper",
]
FOLDERS = {
    "/hostprocsysfs": "/proc/sys",
    "/hostsysfs": "/sys",
    "/usr/local/nvidia/lib64": "/home/kubernetes/bin/nvidia/lib64",
}
SETTINGS = {
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64",
    "NCCL_FASTRAK_IFNAME": ",".join(f"eth{at}" for at in range(1, 9)),
}


def daemon_pod(
    interfaces: int = 8,
    *,
    devices: list[str] = DEVICES,
    folders: dict[str, str] = FOLDERS,
    capabilities: tuple[str, ...] = ("NET_ADMIN", "NET_BIND_SERVICE"),
    settings: dict[str, str] | None = None,
) -> Any:
    listed = [{"interfaceName": "eth0", "network": "default"}]
    listed += [
        {"interfaceName": f"eth{at}", "network": f"tcpxo-{at}"} for at in range(1, interfaces + 1)
    ]
    notes = {
        "devices.gke.io/container.tcpxo-daemon": "".join(
            f"- path: /dev/{name}\n" for name in devices
        ),
        "networking.gke.io/interfaces": json.dumps(listed),
    }
    paths = {**folders, "/dev/aperture_devices": "/dev/aperture_devices"}
    engine = {
        "env": [
            {"name": key, "value": value} for key, value in {**SETTINGS, **(settings or {})}.items()
        ],
        "image": "vllm",
        "name": "vllm",
        "volumeMounts": [{"mountPath": "/dev/aperture_devices", "name": "/dev/aperture_devices"}],
    }
    sidecar = {
        "image": DAEMON,
        "name": "tcpxo-daemon",
        "restartPolicy": "Always",
        "securityContext": {"capabilities": {"add": list(capabilities)}},
        "volumeMounts": [{"mountPath": inside, "name": inside} for inside in folders],
    }
    volumes = [{"hostPath": {"path": path}, "name": name} for name, path in paths.items()]
    return {
        "metadata": {"annotations": notes},
        "spec": {"containers": [engine], "initContainers": [sidecar], "volumes": volumes},
    }


def node(machine: str = "a3-megagpu-8g") -> Any:
    return {"metadata": {"name": "a", "labels": {"node.kubernetes.io/instance-type": machine}}}


def test_an_engine_beside_a_daemon_that_has_what_it_needs_uses_tcpxo():
    both: Any = OnNode(PLUGIN, INJECTOR)
    assert network_of_pod(both, daemon_pod(), node()) == "tcpxo"
    alone = daemon_pod()
    del alone["spec"]["initContainers"]
    assert network_of_pod(both, alone, node()) is None


@pytest.mark.parametrize(
    ("images", "pod", "machine"),
    [
        ((PLUGIN,), daemon_pod(), "a3-megagpu-8g"),
        ((INJECTOR,), daemon_pod(), "a3-megagpu-8g"),
        ((PLUGIN, INJECTOR), daemon_pod(7), "a3-megagpu-8g"),
        ((PLUGIN, INJECTOR), daemon_pod(devices=[]), "a3-megagpu-8g"),
        ((PLUGIN, INJECTOR), daemon_pod(devices=DEVICES[:-1]), "a3-megagpu-8g"),
        ((PLUGIN, INJECTOR), daemon_pod(folders={"/hostsysfs": "/sys"}), "a3-megagpu-8g"),
        ((PLUGIN, INJECTOR), daemon_pod(capabilities=()), "a3-megagpu-8g"),
        ((PLUGIN, INJECTOR), daemon_pod(), "a3-highgpu-8g"),
        ((PLUGIN_OF_TCPX, INJECTOR), daemon_pod(), "a3-megagpu-8g"),
    ],
)
def test_a_daemon_without_something_that_it_needs_fails_its_startup_probe(
    images: tuple[str, ...], pod: Any, machine: str
):
    kube: Any = OnNode(*images)
    with pytest.raises(InitializingError, match="Startup probe failed"):
        network_of_pod(kube, pod, node(machine))


@pytest.mark.parametrize(
    "settings",
    [
        {"NCCL_FASTRAK_IFNAME": "eth1,eth2"},
        {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"},
    ],
)
def test_an_engine_that_does_not_find_the_plug_in_sends_over_the_interface_of_the_node(
    settings: dict[str, str],
):
    kube: Any = OnNode(PLUGIN, INJECTOR)
    assert network_of_pod(kube, daemon_pod(settings=settings), node()) is None


def tcpx_pod(
    interfaces: int = 4,
    *,
    devices: list[str] = DEVICES[:-1],
    sockets: str = "/run/tcpx",
    settings: dict[str, str] | None = None,
) -> Any:
    """Return a pod as Google's manifest for A3 High has it, which shares a folder of sockets."""
    found = daemon_pod(interfaces, devices=devices, capabilities=("NET_ADMIN",))
    notes, spec = found["metadata"]["annotations"], found["spec"]
    notes["devices.gke.io/container.tcpx-daemon"] = notes.pop(
        "devices.gke.io/container.tcpxo-daemon"
    )
    (daemon,), (engine,) = spec["initContainers"], spec["containers"]
    daemon |= {"image": f"{REGISTRY}/gpudirect-tcpx/tcpgpudmarxd-dev:v2", "name": "tcpx-daemon"}
    spec["volumes"].append({"emptyDir": {}, "name": "sockets"})
    daemon["volumeMounts"].append({"mountPath": "/run/tcpx", "name": "sockets"})
    engine["volumeMounts"] = [{"mountPath": sockets, "name": "sockets"}]
    values = {
        "LD_LIBRARY_PATH": SETTINGS["LD_LIBRARY_PATH"],
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2,eth3,eth4",
        "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": "/run/tcpx",
        **(settings or {}),
    }
    engine["env"] = [{"name": name, "value": value} for name, value in values.items()]
    return found


def test_an_engine_that_shares_the_sockets_of_its_daemon_uses_tcpx():
    both: Any = OnNode(PLUGIN_OF_TCPX, INJECTOR)
    assert network_of_pod(both, tcpx_pod(), node("a3-highgpu-8g")) == "tcpx"
    ours = "us-docker.pkg.dev/acme/images/tcpx-nccl-plugin-gpudirecttcpx-dev@sha256:00"
    mirrored: Any = OnNode(ours, INJECTOR)
    assert network_of_pod(mirrored, tcpx_pod(), node("a3-highgpu-8g")) == "tcpx"
    by_default = {"NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": "/tmp"}
    pod = tcpx_pod(sockets="/tmp", settings=by_default)
    assert network_of_pod(both, pod, node("a3-highgpu-8g")) == "tcpx"


@pytest.mark.parametrize(
    ("images", "pod", "machine"),
    [
        ((PLUGIN, INJECTOR), tcpx_pod(), "a3-highgpu-8g"),
        ((PLUGIN_OF_TCPX,), tcpx_pod(), "a3-highgpu-8g"),
        ((PLUGIN_OF_TCPX, INJECTOR), tcpx_pod(3), "a3-highgpu-8g"),
        ((PLUGIN_OF_TCPX, INJECTOR), tcpx_pod(devices=DEVICES[:-2]), "a3-highgpu-8g"),
        ((PLUGIN_OF_TCPX, INJECTOR), tcpx_pod(), "a3-highgpu-4g"),
        ((PLUGIN_OF_TCPX, INJECTOR), tcpx_pod(), "a3-megagpu-8g"),
    ],
)
def test_a_daemon_of_tcpx_without_something_that_it_needs_fails_its_startup_probe(
    images: tuple[str, ...], pod: Any, machine: str
):
    kube: Any = OnNode(*images)
    with pytest.raises(InitializingError, match="Startup probe failed"):
        network_of_pod(kube, pod, node(machine))


def without_daemon() -> Any:
    found = tcpx_pod()
    del found["spec"]["initContainers"]
    return found


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        (tcpx_pod(sockets="/run"), "/run/tcpx"),
        (tcpx_pod(settings={"NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": "/tmp"}), "/tmp"),
        (without_daemon(), "/run/tcpx"),
    ],
)
def test_an_engine_with_the_plug_in_of_tcpx_that_finds_no_daemon_fails(pod: Any, path: str):
    kube: Any = OnNode(PLUGIN_OF_TCPX, INJECTOR)
    with pytest.raises(InitializingError, match=f"{path}/get_gpu_fd_.* connect failed"):
        network_of_pod(kube, pod, node("a3-highgpu-8g"))


def test_an_engine_that_does_not_name_every_interface_of_tcpx_sends_over_that_of_the_node():
    kube: Any = OnNode(PLUGIN_OF_TCPX, INJECTOR)
    pod = tcpx_pod(settings={"NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2"})
    assert network_of_pod(kube, pod, node("a3-highgpu-8g")) is None
