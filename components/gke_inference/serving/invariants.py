"""What must agree inside one container, checked on the finished object.

The parts come from different functions and, one day, from different people; each rule here is a
defect that was seen in published manifests.
"""

from typing import Any

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import accelerator
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.pod_spec import MODEL_LABEL

_SPLIT: dict[str, tuple[str, str | None]] = {
    "diffusion": ("--workers", None),
    "sglang": ("--tp-size", "--dp-size"),
    "tgi": ("--num-shard", None),
    "vllm": ("--tensor-parallel-size", "--data-parallel-size"),
}
"""By engine: the flag that splits a model over devices, and the flag for its copies. The image
server has a whole copy, and a process, on each chip; Triton's weights fix the split."""
_PATH_HOLDERS = ("HOME", "_DIR", "_HOME", "_PATH", "_ROOT")
_SEARCHED = ("LD_LIBRARY_PATH",)  # folders of the image and of the driver, which GKE mounts itself


def broken(container: Manifest, node: Hardware) -> list[str]:
    """Returns a sentence for each rule that an engine's container on `node` breaks."""
    return [
        *_parallelism(container, node),
        *_whole_node(container, node),
        *unmounted_paths(container),
    ]


def broken_group(group: Manifest, node: Hardware) -> list[str]:
    """Returns a sentence for each rule that a LeaderWorkerSet on `node` breaks.

    One pod a host, the leader alone selected by what routes and scrapes, and every file on every
    host: each worker loads its part of the weights and compiles for itself.
    """
    spec = group["spec"]["leaderWorkerTemplate"]
    leader, worker = spec["leaderTemplate"], spec["workerTemplate"]
    first, other = (each["spec"]["containers"][0] for each in (leader, worker))
    found = broken(first, node) + _whole_node(other, node) + unmounted_paths(other)
    if spec["size"] != node.hosts:
        found.append(f"size is {spec['size']}, a replica has {node.hosts} hosts")
    if first["volumeMounts"] != other["volumeMounts"]:
        found.append("the leader and its workers mount different files")
    if MODEL_LABEL in worker["metadata"]["labels"]:
        found.append(f"workers have the label {MODEL_LABEL}: requests would be sent to them")
    return found


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
    found: list[str] = []
    split, copies = _SPLIT.get(container["name"].removesuffix(f"-{node.kind}"), (None, None))
    if split is None:
        return found
    args: list[str] = container["args"]
    asked = _flag(args, split)
    if asked is not None and copies is not None:
        asked = str(int(asked) * int(_flag(args, copies) or "1"))
    stages = _flag(args, "--pipeline-parallel-size")
    per_chip = accelerator(node.rungs[0].accelerator).devices_per_chip
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
