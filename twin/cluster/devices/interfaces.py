"""RDMA interfaces of nodes as devices, as published by GKE's managed DRANET driver. Pure.

Source: docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra; names of
the driver and its attributes: k8s.io/gke-autoscaling cluster-autoscaler
pkg/cloudprovider/gke/dynamicresources (dranet). Rules: `network.claims`, `network.classes`.
"""

from collections.abc import Mapping

from twin.wire.kube import JsonObject
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import claimable

DRIVER = "dra.net"
RDMA_CLASS = "mrdma.google.com"
CLASSES = {RDMA_CLASS: "true", "netdev.google.com": "false"}
"""DeviceClasses that GKE installs, and whether their devices have RDMA."""
_MTU = 8896


def interfaces_of(labels: Mapping[str, str]) -> int:
    """Return the number of RDMA interfaces of a node that its pods can claim."""
    try:
        item = machine(labels.get("node.kubernetes.io/instance-type", ""))
    except UnknownMachineError:
        return 0
    return claimable(item, labels)


def interface(at: int) -> JsonObject:
    """Return one interface of a ResourceSlice; `at` is its index from 0."""
    return {
        "attributes": {
            "dra.net/encapsulation": {"string": "ether"},
            "dra.net/ifName": {"string": f"gpu{at}rdma0"},
            "dra.net/mtu": {"int": _MTU},
            "dra.net/rdma": {"bool": True},
            "dra.net/state": {"string": "up"},
            "dra.net/type": {"string": "device"},
        },
        "name": f"gpu{at}rdma0",
    }


def device_class(name: str) -> JsonObject:
    """Return a DeviceClass that GKE installs."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].rdma'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"{expression} == {CLASSES[name]}"}}]},
    }
