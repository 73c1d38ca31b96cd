"""Names of pods with a subdomain, as the cluster's DNS would answer them.

`CLUSTER_DIR/names.json` maps `HOSTNAME.SUBDOMAIN.NAMESPACE` to the address of the pod. Programs
that look a name up read the file again, as they would ask again.
"""

import json
import threading
from pathlib import Path

from twin.wire.kube import JsonObject


def file_in(folder: Path) -> Path:
    """Return the file of a cluster."""
    return folder / "names.json"


def name_of(pod: JsonObject) -> str | None:
    """Return the name of a pod under its headless Service, or None where it has none."""
    spec = pod["spec"]
    if not spec.get("hostname") or not spec.get("subdomain"):
        return None
    return f"{spec['hostname']}.{spec['subdomain']}.{pod['metadata']['namespace']}"


def look_up(folder: Path, name: str) -> str | None:
    """Return the address behind a name; the cluster's domain may be left out."""
    try:
        known: dict[str, str] = json.loads(file_in(folder).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return known.get(name.split(".svc", 1)[0])


def addresses(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    """Return those variables that are names of pods, as addresses."""
    found = {key: look_up(folder, value) for key, value in variables.items() if "." in value}
    return {key: address for key, address in found.items() if address is not None}


class Names:
    """Keeps the file of one cluster."""

    def __init__(self, folder: Path) -> None:
        self._file = file_in(folder)
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def tell(self, pod: JsonObject, *, gone: bool = False) -> None:
        """Take in what a pod's name and address are now."""
        name = name_of(pod)
        if name is None:
            return
        address = pod.get("status", {}).get("podIP")
        with self._lock:
            before = self._known.get(name)
            if gone:
                self._known.pop(name, None)
            elif address:
                self._known[name] = address
            if self._known.get(name) != before:
                partial = self._file.with_suffix(".tmp")
                partial.write_text(json.dumps(self._known))
                partial.replace(self._file)
