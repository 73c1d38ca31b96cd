"""What must agree inside one container, checked on the finished object.

The parts come from different functions and, one day, from different people; each rule here is a
defect that was seen in published manifests.
"""

from typing import Any

from gke_inference.accelerators import accelerator
from gke_inference.manifests import Manifest
from workloads.hardware import Hardware

_PATH_HOLDERS = ("HOME", "_DIR", "_HOME", "_PATH", "_ROOT")
_SEARCHED = ("LD_LIBRARY_PATH",)  # folders of the image and of the driver, which GKE mounts itself


def broken(container: Manifest, node: Hardware) -> list[str]:
    """Returns a sentence for each rule that an engine's container on `node` breaks."""
    return [
        *_parallelism(container, node),
        *_whole_node(container, node),
        *unmounted_paths(container),
    ]


def chips_of(topology: str) -> int:
    """Returns the chips of a topology: 8 for `2x4`."""
    chips = 1
    for side in topology.split("x"):
        chips *= int(side)
    return chips


def unmounted_paths(container: Manifest) -> list[str]:
    """Returns a sentence for each variable that names a path under no mount of the container."""
    mounts = [str(mount["mountPath"]) for mount in container.get("volumeMounts", [])]
    found: list[str] = []
    for entry in container.get("env", []):
        value = entry.get("value", "")
        name = entry["name"]
        if name in _SEARCHED or not name.endswith(_PATH_HOLDERS) or not value.startswith("/"):
            continue
        if not any(value == mount or value.startswith(f"{mount}/") for mount in mounts):
            found.append(f"{name} is {value}, which no volume is mounted at")
    return found


def _parallelism(container: Manifest, node: Hardware) -> list[str]:
    asked = _flag(container["args"], "--tensor-parallel-size")
    devices = node.chips * accelerator(node.rungs[0].accelerator).devices_per_chip
    found: list[str] = []
    if asked != str(devices):
        found.append(f"--tensor-parallel-size is {asked}, the node has {devices} devices")
    if node.topology is not None and chips_of(node.topology) != node.chips:
        found.append(f"topology {node.topology} is not the node's {node.chips} chips")
    return found


def _whole_node(container: Manifest, node: Hardware) -> list[str]:
    resources: dict[str, Any] = container.get("resources", {})
    if container.get("securityContext", {}).get("privileged"):
        return []
    limit = resources.get("limits", {}).get(node.resource)
    request = resources.get("requests", {}).get(node.resource)
    if limit == request == str(node.chips):
        return []
    return [f"{node.resource}: limit {limit} and request {request}, the node has {node.chips}"]


def _flag(args: list[str], name: str) -> str | None:
    for arg in args:
        key, _, value = arg.partition("=")
        if key == name:
            return value
    return None
