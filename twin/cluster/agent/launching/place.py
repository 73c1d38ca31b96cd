"""The surroundings of a container on this machine, and how it runs there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from twin.cluster.agent.launching import hardware
from twin.cluster.agent.launching.bucket_access import caller_of
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.volumes import Mount
from twin.host import loopback_only
from twin.providers.gcp.iam.principals import Principal
from twin.wire.kube import JsonObject
from twin.world.rules import Rules


@dataclass(frozen=True)
class Launch:
    """How a container runs."""

    kind: Kind
    argv: list[str] = field(default_factory=list[str])
    """Command line; empty if nothing runs."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    ports: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    """Container ports that are different on this machine."""
    needs_kubeconfig: bool = False
    is_real: bool = False
    """Whether it uses real time, regardless of the twin's speed."""
    devices: tuple[Path, ...] = ()
    """Files that represent its devices; a start without the node's driver does not see them."""
    cannot_start: str = ""
    """Why the container runtime cannot start it; empty if it can."""


@dataclass(frozen=True)
class Place:
    """Surroundings of a container on this machine."""

    pod: JsonObject
    node: hardware.NodeHardware
    mounts: list[Mount]
    variables: dict[str, str]
    kubeconfig: Path
    rules: Rules
    tool: Callable[[str], Path]
    collector: str = ""
    """Host and port of the cluster's OpenTelemetry collector; empty if it has none."""
    services: dict[str, str] = field(default_factory=dict[str, str])
    """Variables with which a program reaches Services of the cluster."""
    names: Path = Path("names.json")
    """File with the addresses of pods by name."""
    root: Path | None = None
    """Folder of the twin, which records the replica with a real engine."""
    project: str = ""
    """Project of the cluster, whose workload pool has the pod's account."""
    connections: str = ""
    """Host and port that decide about connections to other pods; empty: all are made."""

    @property
    def caller(self) -> Principal:
        """Identity with which the pod calls Google's APIs."""
        return caller_of(self.project, self.pod)

    def filtered(self, argv: list[str]) -> list[str]:
        """Return the command line of a program that connects to pods by their addresses.

        What NetworkPolicies drop fails, and its servers are on loopback.
        """
        meta = self.pod["metadata"]
        sender = f"{meta['namespace']}/{meta['name']}"
        return loopback_only.command(argv, self.connections, sender)
