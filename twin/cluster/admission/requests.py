"""Requests of pods in Autopilot: defaults, minimums, maximums and ratios. Pure.

The figures are the rules of classes of Autopilot, `autopilot.daemons`, `autopilot.disk` and
`autopilot.bursting`.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.accelerators import catalogue_labels
from gke_inference.catalogue.versions import version_key
from twin.cluster.admission.templates import requested
from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.quantities import quantity
from twin.wire.kube import JsonObject
from twin.world.rules import all_rules

CLASS = catalogue_labels()["compute_class"]
ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")
DISK = "ephemeral-storage"
_ANY_RATIO = (0.0, math.inf)
_MIB = 2**20
_GIB = 2**30
_HARDWARE = (
    CLASS,
    catalogue_labels()["gpu_accelerator"],
    catalogue_labels()["machine_family"],
    catalogue_labels()["tpu_accelerator"],
)
"""Selectors of nodes; without one, a pod runs in the class general-purpose."""
_BY_POD = {"Balanced": "autopilot.class.balanced", "Scale-Out": "autopilot.class.scale-out"}
"""GKE's classes that have ratios, with their rules."""
_SIDECAR = {"cpu": "250m", "memory": "256Mi", DISK: "5Gi"}
"""Requests of the Cloud Storage FUSE sidecar (rule `autopilot.sidecar`)."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a pod's requests: CPUs, and memory in GiB."""

    cpu: tuple[float, float]
    memory: tuple[float, float]
    ratio: tuple[float, float]
    """Least and most memory for each CPU."""
    default: tuple[float, float]
    """CPUs and memory of a container without requests."""


@dataclass(frozen=True)
class Adjusted:
    """A pod template as Autopilot changes it."""

    template: JsonObject
    changed: tuple[str, ...]
    """Names of the containers whose requests or limits changed."""
    problems: tuple[str, ...]
    """What exceeds a maximum, as sentences."""


def bursts(version: str) -> bool:
    """Return whether pods of a cluster may use more than their requests."""
    return version_key(version) >= version_key(all_rules()["autopilot.bursting"].value)


def bounds_of(template: JsonObject, *, is_daemon: bool, may_burst: bool) -> Bounds | None:
    """Return the bounds of a pod, or None where Autopilot takes what a pod requests.

    It does for accelerators and for custom compute classes, whose pods get whole machines.
    """
    selector = text_map(part(template, "spec"), "nodeSelector")
    if is_daemon:
        return _bounds("autopilot.daemons", may_burst=may_burst)
    if selector.get(CLASS) in _BY_POD:
        return _bounds(_BY_POD[selector[CLASS]], may_burst=may_burst)
    if any(label in selector for label in _HARDWARE):
        return None
    return _bounds("autopilot.class.general-purpose", may_burst=may_burst)


def adjusted(template: JsonObject, *, is_daemon: bool, version: str) -> Adjusted:
    """Return a pod template with the requests that Autopilot gives it.

    Args:
        template: pod or pod template; it is not changed.
        is_daemon: whether its pods run once on each node.
        version: GKE version of the cluster.
    """
    found = deepcopy(template)
    before = [deepcopy(part(each, "resources")) for each in _containers(found)]
    may_burst = bursts(version)
    bounds = bounds_of(found, is_daemon=is_daemon, may_burst=may_burst)
    for container in _containers(found):
        _default_disk(container, is_daemon=is_daemon)
    problems: tuple[str, ...] = ()
    if bounds is not None:
        for container in _containers(found):
            _default(container, bounds)
        _fit(found, bounds, step=0.0 if may_burst else 0.25)
        problems = tuple(_above(found, bounds))
    for container in _containers(found):
        _set_limits(container, are_requests=bounds is not None and not may_burst)
    changed = [
        str(each["name"])
        for each, was in zip(_containers(found), before, strict=True)
        if part(each, "resources") != was
    ]
    return Adjusted(found, tuple(changed), problems)


def _containers(template: JsonObject) -> list[JsonObject]:
    return parts(part(template, "spec"), "containers")


def _bounds(rule: str, *, may_burst: bool) -> Bounds:
    values: dict[str, Any] = all_rules()[rule].value
    least = values["least"] if may_burst else values.get("least_without_bursting", values["least"])
    cpu, memory = zip(least, values["most"], strict=True)
    return Bounds(
        cpu, memory, tuple(values.get("memory_per_cpu", _ANY_RATIO)), tuple(values["default"])
    )


def _default_disk(container: JsonObject, *, is_daemon: bool) -> None:
    if requested(container, DISK) is None:
        amount = 100 * _MIB if is_daemon else all_rules()["autopilot.disk"].value["default"] * _GIB
        _request(container, DISK, amount)


def _default(container: JsonObject, bounds: Bounds) -> None:
    """Give a container what it does not request; one of two follows from the other by the ratio."""
    cpu, memory = requested(container, "cpu"), requested(container, "memory")
    least, most = bounds.ratio
    if cpu is None:
        asked = bounds.default[0]
        if memory is not None:
            gib = quantity(memory) / _GIB
            asked = max(asked, gib / most)
            asked = min(asked, gib / least) if least else asked
        _request(container, "cpu", asked)
    if memory is None:
        asked = bounds.default[1]
        if cpu is not None:
            cores = max(quantity(cpu), bounds.cpu[0])
            asked = min(max(asked, cores * least), cores * most)
        _request(container, "memory", asked * _GIB)


def _fit(template: JsonObject, bounds: Bounds, step: float) -> None:
    """Raise the requests of a pod to the minimums and into the ratio, in the first container."""
    first = _containers(template)[0]
    cpu, memory = _total(template, "cpu"), _total(template, "memory") / _GIB
    wanted_cpu = max(cpu, bounds.cpu[0], memory / bounds.ratio[1])
    if step:
        wanted_cpu = math.ceil(round(wanted_cpu / step, 6)) * step
    wanted_memory = max(memory, bounds.memory[0], wanted_cpu * bounds.ratio[0])
    for name, extra in (("cpu", wanted_cpu - cpu), ("memory", (wanted_memory - memory) * _GIB)):
        # a quantity is written in whole thousandths of a CPU or MiB
        if extra > (1e-6 if name == "cpu" else 1.0):
            _request(first, name, quantity(requested(first, name)) + extra)


def _above(template: JsonObject, bounds: Bounds) -> Iterator[str]:
    cpu, memory = _total(template, "cpu"), _total(template, "memory") / _GIB
    yield from _exceeds("cpu", cpu, bounds.cpu[1], "")
    yield from _exceeds("memory", memory, bounds.memory[1], "Gi")
    most_disk = float(all_rules()["autopilot.disk"].value["most"])
    yield from _exceeds(DISK, _total(template, DISK) / _GIB, most_disk, "Gi")


def _exceeds(name: str, value: float, most: float, unit: str) -> Iterator[str]:
    if value > most + 1e-6:
        yield (
            f"Total {name} requested by containers is '{value:g}{unit}', higher than the Autopilot"
            f" maximum of '{most:g}{unit}'."
        )


def _total(template: JsonObject, name: str) -> float:
    """Return what the containers of a pod and its sidecars request of a resource."""
    spec = part(template, "spec")
    sidecars = [
        each for each in parts(spec, "initContainers") if each.get("restartPolicy") == "Always"
    ]
    amounts = [requested(each, name) for each in (*parts(spec, "containers"), *sidecars)]
    notes = text_map(part(template, "metadata"), "annotations")
    if notes.get("gke-gcsfuse/volumes") == "true":
        amounts.append(_sidecar(notes, name))
    return sum(quantity(each) for each in amounts if each is not None)


def _sidecar(notes: dict[str, str], name: str) -> str:
    limit = notes.get(f"gke-gcsfuse/{name}-limit", "0")
    request = notes.get(f"gke-gcsfuse/{name}-request", limit)
    return _SIDECAR[name] if request == "0" else request


def _request(container: JsonObject, name: str, amount: float) -> None:
    if name == "cpu":
        text = f"{math.ceil(round(amount * 1000, 3))}m"
    else:
        text = f"{math.ceil(round(amount / _MIB, 3))}Mi"
    container.setdefault("resources", {})
    container["resources"].setdefault("requests", {})
    container["resources"]["requests"][name] = text


def _set_limits(container: JsonObject, *, are_requests: bool) -> None:
    """Make limits as large as requests, and those of the disk equal to them.

    Args:
        container: is changed.
        are_requests: whether all limits are the requests, as in clusters without bursting.
    """
    resources = part(container, "resources")
    limits = dict(part(resources, "limits"))
    for name, request in part(resources, "requests").items():
        equal = name == DISK or (are_requests and name in ("cpu", "memory"))
        if equal or (name in limits and quantity(limits[name]) < quantity(request)):
            limits[name] = request
    if limits:
        container["resources"]["limits"] = limits
