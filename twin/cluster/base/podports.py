"""Actual ports of pods: programs without a bind flag listen on another port of 127.0.0.1.

`CLUSTER_DIR/podports/NAMESPACE/POD.json` maps such a container port to address and port.
"""

import json
from pathlib import Path

from twin.wire.kube import JsonObject


def _file(folder: Path, namespace: str, name: str) -> Path:
    return folder / "podports" / namespace / f"{name}.json"


def write(folder: Path, namespace: str, name: str, ports: dict[int, tuple[str, int]]) -> None:
    """Record the actual ports of a pod."""
    file = _file(folder, namespace, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".tmp")
    partial.write_text(json.dumps({str(port): list(where) for port, where in ports.items()}))
    partial.replace(file)


def read(folder: Path, namespace: str, name: str) -> dict[int, tuple[str, int]]:
    """Return the moved ports of a pod; empty if none are recorded."""
    try:
        stored = json.loads(_file(folder, namespace, name).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {int(port): (str(where[0]), int(where[1])) for port, where in stored.items()}


def remove(folder: Path, namespace: str, name: str) -> None:
    """Delete the recorded ports of a pod."""
    _file(folder, namespace, name).unlink(missing_ok=True)


def resolve(folder: Path, pod: JsonObject, port: int) -> tuple[str, int]:
    """Return the (address, port) of a container port of a pod.

    Raises:
        LookupError: the pod has no address yet.
    """
    metadata = pod["metadata"]
    moved = read(folder, metadata["namespace"], metadata["name"])
    if port in moved:
        return moved[port]
    address = pod.get("status", {}).get("podIP")
    if not address:
        raise LookupError(f"pod {metadata['namespace']}/{metadata['name']} has no address yet")
    return str(address), port
