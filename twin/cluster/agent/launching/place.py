"""What a container finds where it runs, and how it runs there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from twin.cluster.agent.launching import hardware
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.volumes import Mount
from twin.wire.kube import JsonObject
from twin.world.rules import Rules


@dataclass(frozen=True)
class Launch:
    """How a container runs."""

    kind: Kind
    argv: list[str] = field(default_factory=list[str])
    """Empty: nothing runs."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    ports: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    """Container ports that are elsewhere."""
    needs_kubeconfig: bool = False
    is_real: bool = False
    """It keeps this machine's time, however fast the twin's clock runs."""


@dataclass(frozen=True)
class Place:
    """What a container finds where it runs."""

    pod: JsonObject
    node: hardware.NodeHardware
    mounts: list[Mount]
    variables: dict[str, str]
    kubeconfig: Path
    rules: Rules
    tool: Callable[[str], Path]
    collector: str = ""
    """Host and port of the cluster's OpenTelemetry collector; empty where it has none."""
    services: dict[str, str] = field(default_factory=dict[str, str])
    """Variables by which a program reaches Services of the cluster."""
    names: Path = Path("names.json")
    """File of the addresses of pods by name."""
    root: Path | None = None
    """Folder of the twin, where it says which replica is a real engine."""
