"""Memory of the accelerators by container, which GKE measures on its nodes.

The engine of a container writes what it holds into a file beside its process record; this serves
the files of running containers as a page for Prometheus (rule `monitoring.accelerator-memory`).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from twin.cluster.base.context import ClusterContext
from twin.cluster.monitoring import addresses
from twin.cluster.monitoring.system_jobs import MEMORY_TOTAL, MEMORY_USED
from twin.host.processes import started_at
from twin.wire.text_page import TextPage

MEMORY_SUFFIX = ".accelerator.json"
"""End of the name of a container's file, in the folder of its pod."""
_PROCESS = ".process.json"


def series(pods: Path, cluster: Mapping[str, str]) -> Iterator[tuple[dict[str, str], int, int]]:
    """Yield the labels, used and total bytes of each chip.

    Args:
        pods: Folder of the pods, `NAMESPACE/UID/`.
        cluster: Labels of the cluster.
    """
    for file in sorted(pods.glob(f"*/*/*{MEMORY_SUFFIX}")):
        container = file.name.removesuffix(MEMORY_SUFFIX)
        try:
            held: dict[str, Any] = json.loads(file.read_text())
            pod: str = json.loads((file.parent / "pod.json").read_text())["name"]
            process = json.loads((file.parent / f"{container}{_PROCESS}").read_text())
        except (FileNotFoundError, ValueError):  # it has ended
            continue
        if started_at(int(process["pid"])) != process["started"]:
            continue
        named = {
            **cluster,
            "namespace_name": file.parent.parent.name,
            "pod_name": pod,
            "container_name": container,
            "make": held["make"],
            "model": held["model"],
        }
        for number in range(held["chips"]):
            yield {**named, "accelerator_id": str(number)}, held["used"], held["total"]


def page(pods: Path, cluster: Mapping[str, str]) -> str:
    """Return the page of metrics."""
    lines: dict[str, list[str]] = {MEMORY_USED: [], MEMORY_TOTAL: []}
    for labels, used, total in series(pods, cluster):
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        lines[MEMORY_USED].append(f"{MEMORY_USED}{{{text}}} {used}")
        lines[MEMORY_TOTAL].append(f"{MEMORY_TOTAL}{{{text}}} {total}")
    return "".join(
        f"# TYPE {name} gauge\n" + "".join(f"{line}\n" for line in found)
        for name, found in lines.items()
    )


class AcceleratorMemory:
    """The page of one cluster, at an address that a restart does not change."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._pods = ctx.dir / "pods"
        self._file = ctx.dir / "accelerators" / "addresses"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._page: TextPage | None = None
        spec = ctx.spec
        self._cluster = {
            "project_id": spec.project,
            "location": spec.location,
            "cluster_name": spec.name,
        }

    @property
    def address(self) -> str:
        """Host and port of the page."""
        return addresses.kept(self._file)[0]

    def start(self) -> None:
        """Serve the page until `stop`."""
        if addresses.is_taken(self.address):
            self._file.unlink()  # by a stranger, while this cluster was down
        host, port = self.address.rsplit(":", 1)
        self._page = TextPage(
            (host, int(port)), "accelerator-memory", lambda: page(self._pods, self._cluster)
        )

    def stop(self) -> None:
        """End the server."""
        if self._page is not None:
            self._page.close()
            self._page = None
