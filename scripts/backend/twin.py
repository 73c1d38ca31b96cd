"""The twin as a backend, with its processes, files and store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.backend.backend import Leftover, Maker, Wanted
from scripts.backend.drift import Drift, drift_of
from scripts.backend.recovery import nothing
from scripts.backend.twin_leftovers import leftovers, remove
from scripts.observe.access_log import Entry, entries, is_wanted
from scripts.shared.clusters import Cluster, close, of_twin
from scripts.shared.engine import Engine
from scripts.shared.hosts import lead
from scripts.shared.replica_status import metrics_of
from scripts.terminal.console import CommandError
from scripts.terminal.options import check_stack
from twin import daemon
from twin.cluster import lifecycle
from twin.host.paths import TwinPaths


def not_up(stack: str, *, has_cloud: bool = False) -> CommandError:
    """Return the error for a stack that is not up on the twin.

    Args:
        stack: Name of the stack.
        has_cloud: Whether the command has the option `--on`.
    """
    return CommandError(
        f"--stack: must be a stack that is up on the twin, got {stack!r}; run make up STACK={stack}"
        f"{', or add --on cloud' if has_cloud else ''}"
    )


class TwinBackend:
    """The twin with all of its clusters, which stacks share."""

    label = "the twin"

    def __init__(self, stack: str, paths: TwinPaths) -> None:
        """Take the stack and the twin; start nothing."""
        self.stack = stack
        self.paths = paths

    def clusters(self) -> list[Cluster]:
        """Return the twin's clusters."""
        return list(of_twin(self.paths))

    def endpoint(self) -> str:
        """Return the URL that the stack exports.

        Raises:
            CommandError: The twin does not run, or the stack is not up.
        """
        if daemon.ports(self.paths) is None:
            raise CommandError("the twin is not running; start it with make up")
        engine = self.pulumi()
        outputs = engine.outputs(self.stack) if self.stack in engine.stacks() else {}
        if "endpoint" not in outputs:
            raise not_up(self.stack)
        lead(outputs, self.paths.ca_bundle)
        return str(outputs["endpoint"])

    def metrics(self) -> Mapping[str, str]:
        """Return the URL of each cluster's Prometheus."""
        return metrics_of(self.paths)

    def access_log(self, wanted: Wanted) -> "TwinAccessLog":
        """Return the log files of the gateways.

        Raises:
            CommandError: The twin has no cluster.
        """
        if not lifecycle.folders(self.paths):
            raise CommandError("the twin has no cluster, so no gateway; start it with make up")
        return TwinAccessLog(self.paths, wanted)

    def leftovers(self) -> list[Leftover]:
        """Return what is left in the twin's cloud, of every stack."""
        return leftovers(self.paths)

    def remove(self, leftover: Leftover) -> None:
        """Remove a leftover of GKE.

        Raises:
            CommandError: It belongs to the stack.
        """
        if leftover.maker is not Maker.GKE:
            raise CommandError(f"{leftover}: must be made by GKE; destroy the stack instead")
        remove(self.paths, leftover)

    def drift(self) -> list[Drift]:
        """Return the objects that are not as the stack's state has them."""
        clusters = self.clusters()
        found = drift_of(self.pulumi().resources_of(self.stack), clusters)
        close(clusters)
        return found

    def find(self, kind: str, inputs: Mapping[str, Any]) -> str:
        """Return nothing: the twin returns the existing resource on a repeated creation."""
        return nothing(kind, inputs)

    def pulumi(self) -> Engine:
        """Return the Pulumi CLI with the twin's providers, which are started.

        Raises:
            CommandError: The stack has no file.
        """
        check_stack(self.stack)
        return Engine(self.paths)


class TwinAccessLog:
    """The access logs of the twin's gateways."""

    def __init__(self, paths: TwinPaths, wanted: Wanted) -> None:
        """Take the twin and the filters."""
        self._paths, self._wanted = paths, wanted
        self._read: dict[Path, int] = {}

    def read(self) -> list[Entry]:
        """Return the lines since the last call, oldest first."""
        for folder in lifecycle.folders(self._paths):
            for file in sorted((folder / "logs").glob("gateway-*.access.jsonl")):
                self._read.setdefault(file, 0)
        wanted = self._wanted
        found = [
            entry
            for entry in entries(self._read)
            if is_wanted(entry, wanted.model, wanted.status, wanted.trace)
        ]
        return sorted(found, key=lambda entry: str(entry.get("time")))
