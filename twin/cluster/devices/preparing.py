"""Preparation of a pod's claims by the kubelet before it creates containers."""

from dataclasses import dataclass

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.cluster.base.fields import part, parts
from twin.cluster.devices.devices import DRIVERS
from twin.cluster.devices.interfaces import DRIVER as NETWORK_DRIVER
from twin.wire.kube import JsonObject, Kube, KubeError

_CLAIMS = "/apis/resource.k8s.io/v1/namespaces"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class PreparingError(Exception):
    """A claim cannot be prepared (`FailedPrepareDynamicResources`), so its pod does not start."""


@dataclass(frozen=True)
class Prepared:
    """Devices that are allocated to a pod by its claims."""

    chips: tuple[str, int] | None = None
    """Kind and number of accelerators; None if the pod claims none."""
    interfaces: int = 0
    """Number of RDMA interfaces."""


def prepared(kube: Kube, pod: JsonObject, node: JsonObject) -> Prepared:
    """Return the devices of a pod's claims.

    Raises:
        PreparingError: A claim has no devices, is not for the pod, or its driver rejects it.
    """
    names = parts(part(pod, "status"), "resourceClaimStatuses")
    claimed = parts(pod["spec"], "resourceClaims")
    found: dict[str, int] = {}
    for each in claimed:
        name = each.get("resourceClaimName") or next(
            (one.get("resourceClaimName") for one in names if one["name"] == each["name"]), None
        )
        for driver, count in _devices(kube, pod, node, str(name)).items():
            found[driver] = found.get(driver, 0) + count
    chips = [(kind, found[driver]) for kind, driver in DRIVERS.items() if driver in found]
    return Prepared(chips[0] if chips else None, found.get(NETWORK_DRIVER, 0))


def _devices(kube: Kube, pod: JsonObject, node: JsonObject, name: str) -> dict[str, int]:
    meta: JsonObject = pod["metadata"]
    path = f"{_CLAIMS}/{meta['namespace']}/resourceclaims/{name}"
    try:
        claim = kube.get(path)
    except KubeError as error:
        raise PreparingError(f"fetch ResourceClaim {name}: {error}") from error
    status = part(claim, "status")
    users = [each.get("uid") for each in parts(status, "reservedFor")]
    results = parts(part(part(status, "allocation"), "devices"), "results")
    if not results or meta["uid"] not in users:
        raise PreparingError(f"pod {meta['name']} is not allowed to use ResourceClaim {name}")
    found: dict[str, int] = {}
    for result in results:
        found[result["driver"]] = found.get(result["driver"], 0) + 1
    for driver, count in found.items():
        _check_driver(kube, node, driver, count)
    return found


def _check_driver(kube: Kube, node: JsonObject, driver: str, count: int) -> None:
    where = node["metadata"]["name"]
    try:
        kube.get(f"{_SLICES}/{where}-{driver}")
    except KubeError as error:
        message = f"DRA driver {driver} is not registered"
        raise PreparingError(message) from error
    chips = int(part(node["metadata"], "labels").get(catalogue_labels()["gpu_count"], "1"))
    if driver == DRIVERS["tpu"] and count != chips:
        message = "invalid TPU chip count request, you must request all"
        raise PreparingError(f"{message} {chips} chips on this node together")
