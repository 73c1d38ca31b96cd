"""Consistency checks on a finished container or group.

The parts come from different functions and may come from different people. Each rule here is a
defect found in published manifests.
"""

from typing import Any

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.engines import engine, engine_names
from gke_inference.serving.device_claims import CLAIM
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.pod_spec import MODEL_LABEL

_PATH_HOLDERS = ("HOME", "_DIR", "_HOME", "_PATH", "_ROOT")
_SEARCHED = ("LD_LIBRARY_PATH",)  # folders of the image and of the driver, which GKE mounts itself


def broken(container: Manifest, node: Hardware, form: str = "single") -> list[str]:
    """Return a sentence for each rule that an engine container on `node` violates.

    Args:
        container: Container of an engine.
        node: Its hardware.
        form: Form of the model. Only in form `dual-container` may a container see devices that it
            does not request, because it is privileged.
    """
    sees_all = form == "dual-container" and _is_privileged(container)
    return [
        *_parallelism(container, node),
        *([] if sees_all else _whole_node(container, node)),
        *unmounted_paths(container),
    ]


def broken_group(group: Manifest, node: Hardware) -> list[str]:
    """Return a sentence for each rule that a LeaderWorkerSet on `node` violates.

    One pod per host, only the leader selected for routing and scraping, and the same files on every
    host: each worker loads its part of the weights and compiles for itself.
    """
    spec = group["spec"]["leaderWorkerTemplate"]
    return _broken_hosts(spec["leaderTemplate"], spec["workerTemplate"], spec["size"], node)


def broken_ray_cluster(cluster: Manifest, node: Hardware) -> list[str]:
    """Returns a sentence for each of the same rules that a RayCluster on `node` breaks."""
    head, (workers,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    return _broken_hosts(head["template"], workers["template"], workers["replicas"] + 1, node)


def _broken_hosts(leader: Manifest, worker: Manifest, size: int, node: Hardware) -> list[str]:
    first, other = (each["spec"]["containers"][0] for each in (leader, worker))
    found = broken(first, node) + _whole_node(other, node) + unmounted_paths(other)
    if size != node.hosts:
        found.append(f"size is {size}, a replica has {node.hosts} hosts")
    if first["volumeMounts"] != other["volumeMounts"]:
        found.append("the leader and its workers mount different files")
    serves = "--data-parallel-hybrid-lb" in other.get("args", ())
    has_label = MODEL_LABEL in worker["metadata"]["labels"]
    if serves and not has_label:
        found.append(f"workers lack the label {MODEL_LABEL}: their devices would get no requests")
    if has_label and not serves:
        found.append(f"workers have the label {MODEL_LABEL}: requests would be sent to them")
    return found


def chips_of(topology: str) -> int:
    """Return the chips of a topology, such as 8 for `2x4`."""
    chips = 1
    for side in topology.split("x"):
        chips *= int(side)
    return chips


def unmounted_paths(container: Manifest) -> list[str]:
    """Return a sentence for each variable with a path outside all mounts of the container."""
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
    found: list[str] = []
    name = container["name"].removesuffix(f"-{node.kind}")
    flags = engine(name).split_flags if name in engine_names() else ()
    if not flags:
        return found
    split, *copies = flags
    args: list[str] = container["args"]
    asked = _flag(args, split)
    if asked is not None and copies:
        asked = str(int(asked) * int(_flag(args, copies[0]) or "1"))
    stages = _flag(args, "--pipeline-parallel-size")
    per_chip = node.rungs[0].chip.devices_per_chip
    devices, wanted = node.hosts * node.chips * per_chip, (asked or "1", stages or "1")
    if node.hosts == 1 and asked != str(devices):
        found.append(f"{split} is {asked}, the node has {devices} devices")
    elif node.hosts > 1 and int(wanted[0]) * int(wanted[1]) != devices:
        found.append(
            f"--tensor-parallel-size {wanted[0]} times --pipeline-parallel-size {wanted[1]} is not"
            f" the {devices} devices of {node.hosts} hosts"
        )
    chips = node.hosts * node.chips
    if node.topology is not None and chips_of(node.topology) != chips:
        owner = "node's" if node.hosts == 1 else f"{node.hosts} hosts'"
        found.append(f"topology {node.topology} is not the {owner} {chips} chips")
    return found


def _whole_node(container: Manifest, node: Hardware) -> list[str]:
    resources: dict[str, Any] = container.get("resources", {})
    if CLAIM in (claim["name"] for claim in resources.get("claims", ())):
        return []  # the claim has the devices of the whole node
    found: list[str] = []
    for resource, amount in node.devices.items():
        limit = resources.get("limits", {}).get(resource)
        request = resources.get("requests", {}).get(resource)
        if limit != amount or request != amount:
            found.append(f"{resource}: limit {limit} and request {request}, the node has {amount}")
    return found


def _is_privileged(container: Manifest) -> bool:
    return bool(container.get("securityContext", {}).get("privileged"))


def _flag(args: list[str], name: str) -> str | None:
    for arg in args:
        key, _, value = arg.partition("=")
        if key == name:
            return value
    return None
