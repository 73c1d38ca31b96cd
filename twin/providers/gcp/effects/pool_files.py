"""Files that pass node pools to the process that simulates GKE (`CLUSTER_DIR/pools`).

`NAME.json` has the desired state: `{"name", "inputs", "zones", "digest"}`. `NAME.status.json` has
the status: `{"ready", "wanted", "error", "digest"}`, with the digest of the corresponding desired
state. It is removed when the pool's nodes are removed.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from twin.wire.property_values import CloudError, Json

_REMOVE_SECONDS = 300.0
_POLL_SECONDS = 0.1


def _file(folder: Path, name: str) -> Path:
    return folder / "pools" / f"{name}.json"


def _status(folder: Path, name: str) -> Json | None:
    try:
        return json.loads((folder / "pools" / f"{name}.status.json").read_text())
    except (FileNotFoundError, ValueError):
        return None


def write(folder: Path, inputs: Json, zones: tuple[str, ...]) -> None:
    """Request a pool or its update.

    Args:
        folder: folder of the cluster.
        inputs: inputs of the node pool in camelCase, with its name.
        zones: zones of its nodes.
    """
    name = str(inputs["name"])
    file = _file(folder, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"name": name, "inputs": inputs, "zones": list(zones)}
    text = json.dumps(content, sort_keys=True)
    content["digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    partial = file.with_name(f".{name}.tmp")
    partial.write_text(json.dumps(content))
    partial.replace(file)


def wait_ready(folder: Path, name: str, timeout: float) -> None:
    """Wait until every node of a pool is ready, for at most `timeout` seconds.

    Raises:
        CloudError: GKE's error if the nodes are not available, or they were not ready in time.
    """
    end = time.monotonic() + timeout
    digest = json.loads(_file(folder, name).read_text())["digest"]
    status: Json | None = None
    while time.monotonic() < end:
        status = _status(folder, name)
        if status is not None and status.get("digest", digest) == digest:
            if status.get("error"):
                raise CloudError(400, str(status["error"]), "nodePoolError")
            if status["ready"] >= status["wanted"]:
                return
        time.sleep(_POLL_SECONDS)
    state = f"{status['ready']} of {status['wanted']} nodes ready" if status else "no node started"
    raise CloudError(
        504, f"node pool {name}: timed out after {timeout:.0f} s with {state}", "deadlineExceeded"
    )


def remove(folder: Path, name: str, timeout: float = _REMOVE_SECONDS) -> None:
    """Remove a pool and wait until its nodes are removed; ignore a missing cluster."""
    file = _file(folder, name)
    if not file.exists():
        return
    file.unlink(missing_ok=True)
    end = time.monotonic() + timeout
    while _status(folder, name) is not None and folder.exists():
        if time.monotonic() > end:
            raise CloudError(
                504,
                f"node pool {name}: its nodes did not go in {timeout:.0f} s",
                "deadlineExceeded",
            )
        time.sleep(_POLL_SECONDS)
