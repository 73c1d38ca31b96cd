"""The context of every controller of a cluster."""

import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twin.cluster.base.watches import Watches
from twin.host.paths import TwinPaths
from twin.toolchain import obtain
from twin.wire.kube import Kube
from twin.world.events import Events
from twin.world.rules import Rules

_CONNECTIONS = 96  # some twenty watches hold one each; the others are kept open between requests


@dataclass(frozen=True)
class ClusterSpec:
    """The specification with which the cluster was created."""

    project: str
    location: str
    """Region of a regional cluster, or zone of a zonal cluster."""
    name: str
    zones: tuple[str, ...]
    """Zones of its nodes."""
    autopilot: bool
    version: str
    uid: str

    @property
    def region(self) -> str:
        """Region of the cluster."""
        return self.location if self.location.count("-") == 1 else self.location.rsplit("-", 1)[0]

    def save(self, folder: Path) -> None:
        """Write the specification into the cluster's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spec.json").write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> "ClusterSpec":
        """Read the specification of the cluster in `folder`."""
        stored: dict[str, Any] = json.loads((folder / "spec.json").read_text())
        zones = tuple(stored.pop("zones"))
        return cls(zones=zones, **stored)


class ClusterContext:
    """One cluster, as its controllers see it."""

    def __init__(self, paths: TwinPaths, folder: Path) -> None:
        self.paths = paths
        self.dir = folder
        self.spec = ClusterSpec.load(folder)
        self.kubeconfig = folder / "kubeconfig"
        self.events = Events(paths.events_file)
        self.rules = Rules.of(paths)
        self._kube: Kube | None = None
        self._watches: Watches | None = None
        self._making = threading.Lock()

    @property
    def kube(self) -> Kube:
        """The cluster's API server, as its administrator."""
        with self._making:
            if self._kube is None:
                self._kube = Kube(self.kubeconfig, _CONNECTIONS)
            return self._kube

    @property
    def watches(self) -> Watches:
        """Watches of the cluster's objects, shared by everything that has this context."""
        kube = self.kube
        with self._making:
            if self._watches is None:
                self._watches = Watches(kube)
            return self._watches

    def tool(self, program: str) -> Path:
        """Return the path of a program of the twin.

        Raises:
            twin.toolchain.ToolError: the program is being prepared in the background; retry later.
        """
        return obtain(program)
