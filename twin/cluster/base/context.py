"""What every controller of a cluster is given."""

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
    """What was asked for when the cluster was created."""

    project: str
    location: str
    """Region of a regional cluster, zone of a zonal one."""
    name: str
    zones: tuple[str, ...]
    """Zones its nodes may be in."""
    autopilot: bool
    version: str
    uid: str

    @property
    def region(self) -> str:
        """Region the cluster is in."""
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
            twin.toolchain.ToolError: it is being prepared in the background; ask again later.
        """
        return obtain(program)
