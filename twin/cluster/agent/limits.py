"""Limits that end containers and pods: memory, emptyDir volumes and ephemeral storage.

Only what really is in memory or on disk on this machine counts (rule agent.limits). A simulated
engine uses as little as its process does, whatever its model would need.
"""

import os
import time
from decimal import Decimal
from pathlib import Path

from twin.cluster.agent.container import Container
from twin.cluster.base.fields import part
from twin.providers.kubernetes.manifests.quantities import amount
from twin.wire.kube import JsonObject

_PERIOD_SECONDS = 2.0
_LIMITS = ("resources", "limits")
_STORAGE = "ephemeral-storage"
_LOG_BYTES = 5 * 10 * 2**20
"""The kubelet keeps five files of 10 MiB (containerLogMaxFiles, containerLogMaxSize)."""


class Limits:
    """The limits of one pod.

    Args:
        pod: The pod.
        folder: Its folder, which has its emptyDir volumes.
    """

    def __init__(self, pod: JsonObject, folder: Path) -> None:
        self._empty: dict[str, JsonObject] = {
            volume["name"]: volume["emptyDir"] or {}
            for volume in pod["spec"].get("volumes", [])
            if "emptyDir" in volume
        }
        self._volumes = folder / "volumes"
        self.due = 0.0
        """Monotonic time of the next look."""

    def look(self, containers: list[Container], grace: float) -> None:
        """Kill containers over their memory limit, and evict a pod over a limit of storage.

        Args:
            containers: Containers of the pod.
            grace: Time in seconds between SIGTERM and SIGKILL of an evicted container.
        """
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + _PERIOD_SECONDS
        charged: set[str] = set()
        for container in containers:
            own = self._in_memory(container.spec) - charged
            charged |= own
            limit = memory_limit(container.spec)
            if limit is not None and container.record is not None and container.record.alive:
                used = sum(folder_bytes(self._volumes / name) for name in own)
                if used + resident_bytes(container.record.pid) > limit:
                    container.kill_for_memory()
        message = self._too_large() or self._too_much(containers)
        if message and not any(container.evicted for container in containers):
            containers[0].event("Warning", "Evicted", message)
            for container in containers:
                container.evict(message, grace)

    def _in_memory(self, spec: JsonObject) -> set[str]:
        """Return the volumes in memory to which a container writes."""
        return {
            mount["name"]
            for mount in spec.get("volumeMounts", [])
            if self._empty.get(mount["name"], {}).get("medium") == "Memory"
            and not mount.get("readOnly")
        }

    def _too_large(self) -> str:
        for name, volume in self._empty.items():
            limit = _bytes(volume.get("sizeLimit"))
            if limit is not None and folder_bytes(self._volumes / name) > limit:
                size = volume["sizeLimit"]
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{size}". '
        return ""

    def _too_much(self, containers: list[Container]) -> str:
        """Return why the pod's ephemeral storage is too much; empty if it is not."""
        given = {each.name: part(each.spec, *_LIMITS).get(_STORAGE) for each in containers}
        limits = {
            name: limit
            for name, quantity in given.items()
            if (limit := _bytes(quantity)) is not None
        }
        if not limits:
            return ""
        logs = {each.name: _log_bytes(each) for each in containers}
        disks = [n for n, each in self._empty.items() if each.get("medium") != "Memory"]
        used = sum(logs.values()) + sum(folder_bytes(self._volumes / name) for name in disks)
        if used > (total := sum(limits.values())):
            words = "Pod ephemeral local storage usage exceeds the total limit of containers"
            only = next(iter(limits)) if len(limits) == 1 else None
            return f"{words} {_in_binary(total) if only is None else given[only]}. "
        for name, limit in limits.items():
            if logs[name] > limit:
                words = f"Container {name} exceeded its local ephemeral storage limit"
                return f'{words} "{given[name]}". '
        return ""


def memory_limit(spec: JsonObject) -> int | None:
    """Return the memory limit of a container in bytes, or None without one."""
    return _bytes(part(spec, *_LIMITS).get("memory"))


def resident_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants that no file backs.

    It is what a memory cgroup cannot reclaim.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return 0
    own = sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return own * 1024 + sum(resident_bytes(int(child)) for child in children)


def folder_bytes(folder: Path) -> int:
    """Return the size of the files below a folder, in bytes."""
    total = 0
    for at, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except OSError:  # removed meanwhile
                continue
    return total


def _log_bytes(container: Container) -> int:
    """Return what a container wrote to its log, as far as the kubelet keeps it."""
    size = container.log.stat().st_size if container.log.exists() else 0
    return min(size - container.log_began, _LOG_BYTES)


def _in_binary(size: int) -> str:
    """Return a size as Kubernetes writes a sum of binary quantities, such as `3Gi`."""
    for suffix in ("", "Ki", "Mi", "Gi"):
        if size % 1024:
            return f"{size}{suffix}"
        size //= 1024
    return f"{size}Ti"


def _bytes(quantity: object) -> int | None:
    found: Decimal | None = None if quantity is None else amount(quantity)
    return None if found is None else int(found)
