"""The devices of a node, and the alternatives of a claim that they satisfy. Pure.

Sources for published devices: kubernetes-sigs/dra-driver-google-tpu v0.1.0
cmd/tpu-dra-kubeletplugin and kubernetes-sigs/dra-driver-nvidia-gpu v0.4.0 cmd/gpu-kubelet-plugin.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.accelerators import (
    TPU_GENERATIONS,
    accelerator,
    catalogue_labels,
    names_by_gke_type,
)
from twin.cluster.base.fields import part, parts
from twin.cluster.devices.interfaces import DRIVER as NETWORK_DRIVER
from twin.cluster.devices.interfaces import RDMA_CLASS, interface, interfaces_of
from twin.wire.kube import JsonObject

DRIVERS = {"gpu": "gpu.nvidia.com", "tpu": "tpu.google.com"}
"""Name of the driver, and of its DeviceClass, by kind of accelerator."""
_DRIVER_VERSION = "580.126.20"  # from an ai-on-gke tutorial
_CUDA_VERSION = "13.0.0"
_EQUALS = re.compile(
    r"""device\.attributes\[["'](?P<domain>[^"']+)["']\]\.(?P<name>\w+)"""
    r""" == ["'](?P<value>[^"']*)["']"""
)


@dataclass(frozen=True)
class Devices:
    """The devices that one driver has, or would have, on a node."""

    driver: str
    attributes: Mapping[str, str]
    """Attributes that all devices share, as text."""
    count: int

    @property
    def device_class(self) -> str:
        """DeviceClass of all devices."""
        return RDMA_CLASS if self.driver == NETWORK_DRIVER else self.driver


def devices_of(labels: Mapping[str, str]) -> tuple[Devices, ...]:
    """Return the devices that GKE's autoscaler predicts from a node's labels.

    Source: k8s.io/gke-autoscaling cluster-autoscaler/pkg/cloudprovider/gke/dynamicresources.
    """
    keys = catalogue_labels()
    names = names_by_gke_type()
    found: list[Devices] = []
    if interfaces := interfaces_of(labels):
        found.append(Devices(NETWORK_DRIVER, {}, interfaces))
    for kind in ("tpu", "gpu"):
        chip = names.get(labels.get(keys[f"{kind}_accelerator"], ""))
        is_known = kind == "gpu" or chip in TPU_GENERATIONS
        if chip is not None and is_known and labels.get(keys[f"dra_{kind}"]) == "true":
            count = int(labels.get(keys["gpu_count"], "1"))  # TPU nodes have the same label
            found.append(Devices(DRIVERS[kind], _attributes(kind, chip), count))
    return tuple(found)


def _attributes(kind: str, chip: str) -> dict[str, str]:
    if kind == "tpu":
        return {"tpuGen": TPU_GENERATIONS[chip]}
    gpu = accelerator(chip)
    title = gpu.title.removeprefix("NVIDIA ").partition(" (")[0]
    return {
        "architecture": gpu.cuda.architecture if gpu.cuda else "",
        "brand": "Nvidia",
        "productName": f"NVIDIA {title}",
        "type": "gpu",
    }


def resource_slice(node: JsonObject, devices: Devices) -> JsonObject:
    """Return the ResourceSlice that the driver publishes for a node."""
    meta: JsonObject = node["metadata"]
    name: str = meta["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": meta["uid"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{devices.driver}", "ownerReferences": [owner]},
        "spec": {
            "devices": [_device(meta, devices, at) for at in range(devices.count)],
            "driver": devices.driver,
            "nodeName": name,
            "pool": {"generation": 1, "name": name, "resourceSliceCount": 1},
        },
    }


def _device(meta: JsonObject, devices: Devices, at: int) -> JsonObject:
    if devices.driver == NETWORK_DRIVER:
        return interface(at)
    shared = {name: {"string": value} for name, value in devices.attributes.items()}
    unique = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{meta['uid']}/{at}"))
    if devices.driver == DRIVERS["tpu"]:
        # all chips have the same uuid, derived from the node's name
        whole = str(uuid.uuid5(uuid.NAMESPACE_DNS, meta["name"]))
        own = {"index": {"int": at}, "uuid": {"string": f"tpu-{whole}"}}
        return {"attributes": {**shared, **own}, "name": str(at)}
    gpu = accelerator(names_by_gke_type()[meta["labels"][catalogue_labels()["gpu_accelerator"]]])
    own = {
        "cudaComputeCapability": {
            "version": f"{gpu.cuda.compute_capability if gpu.cuda else '0.0'}.0"
        },
        "cudaDriverVersion": {"version": _CUDA_VERSION},
        "driverVersion": {"version": _DRIVER_VERSION},
        "uuid": {"string": f"GPU-{unique}"},
    }
    memory = {"memory": {"value": f"{gpu.memory_gib}Gi"}}
    return {"attributes": {**shared, **own}, "capacity": memory, "name": f"gpu-{at}"}


@dataclass(frozen=True)
class Alternative:
    """One alternative of a request."""

    device_class: str
    wanted: tuple[tuple[str, str], ...]
    """Names and values of attributes, all of which a device must have."""
    count: int | None
    """Number of devices; None: all devices of the node."""
    is_clear: bool = True
    """Whether all selectors are supported; an alternative with other selectors fits no node."""

    def taken(self, devices: Devices, free: int) -> int | None:
        """Return how many devices of a node it takes; None if they do not satisfy it."""
        has = all(devices.attributes.get(name) == value for name, value in self.wanted)
        if not self.is_clear or self.device_class != devices.device_class or not has:
            return None
        number = devices.count if self.count is None else self.count
        return number if 0 < number <= free else None


Request = tuple[Alternative, ...]
"""Alternatives of a request, in order of preference."""


def claims_interfaces_only(requests: Iterable[Request]) -> bool:
    """Return whether all requests are for RDMA interfaces."""
    return all(
        ways and all(way.is_clear and way.device_class == RDMA_CLASS for way in ways)
        for ways in requests
    )


def requests_of(spec: JsonObject) -> tuple[Request, ...]:
    """Return the requests in the `spec` of a ResourceClaim or of a template's claim."""
    found: list[Request] = []
    for request in parts(part(spec, "devices"), "requests"):
        ways = parts(request, "firstAvailable") or [part(request, "exactly")]
        found.append(tuple(_alternative(way) for way in ways))
    return tuple(found)


def _alternative(way: JsonObject) -> Alternative:
    device_class = str(way.get("deviceClassName") or "")
    wanted: list[tuple[str, str]] = []
    is_clear = device_class in (*DRIVERS.values(), RDMA_CLASS)
    for selector in parts(way, "selectors"):
        for term in str(part(selector, "cel").get("expression") or "").split("&&"):
            match = _EQUALS.fullmatch(term.strip())
            if match is None or match["domain"] != device_class:
                is_clear = False
            else:
                wanted.append((match["name"], match["value"]))
    is_all = way.get("allocationMode") == "All"
    count = None if is_all else int(way.get("count") or 1)
    return Alternative(device_class, tuple(wanted), count, is_clear)
