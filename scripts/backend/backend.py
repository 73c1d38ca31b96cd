"""What commands ask of a deployed stack, whether it is on the twin or in Google Cloud.

A command takes a `Backend` and never asks which one it is. What both can answer belongs here; what
only one of them has (scenarios, prerequisites of a project) does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from scripts.observe.access_log import Entry
from scripts.shared.clusters import Cluster
from scripts.shared.pulumi_cli import PulumiCli


class Maker(StrEnum):
    """Who made what is left, and so who removes it."""

    STACK = "the stack"
    """`pulumi destroy` removes it."""
    GKE = "GKE"
    """A controller of a cluster; nobody removes it once the cluster is gone."""
    OTHERS = "others"
    """Somebody else, in the stack's network; whoever made it removes it."""


@dataclass(frozen=True)
class Leftover:
    """One thing that still exists, and that a destroyed stack does not have."""

    kind: str
    """What it is, such as `firewall rule`."""
    name: str
    """Name, with its place where it has one."""
    maker: Maker = Maker.STACK
    path: str = ""
    """How the backend names it when it removes it."""
    has_data: bool = False
    """Whether removing it loses data, as of a disk."""

    def __str__(self) -> str:
        """Return the line that users read."""
        by = "" if self.maker is Maker.STACK else f", made by {self.maker.value}"
        return f"{self.kind} {self.name}{by}"


@dataclass(frozen=True)
class Wanted:
    """Which lines of the access logs are asked for; an empty filter passes all."""

    model: str = ""
    """Exact name of a model."""
    status: str = ""
    """Status code such as `503`, or class such as `5xx`."""
    trace: str = ""
    """Prefix of a trace ID."""
    minutes: int = 60
    """How far back, where a backend keeps logs for long."""


class AccessLog(Protocol):
    """The access logs of a stack's gateways, read as they are written."""

    def read(self) -> list[Entry]:
        """Return the lines since the last call, oldest first.

        Raises:
            CommandError: They cannot be read.
        """
        ...


class Backend(Protocol):
    """One deployed stack. Every method raises `CommandError`, in one line, where it cannot answer.

    `open_backend` gives one; it closes connections at its end.
    """

    @property
    def label(self) -> str:
        """Return where the stack is, for messages: `the twin`, `project acme-inference-prod`."""
        ...

    def clusters(self) -> Sequence[Cluster]:
        """Return the stack's clusters that exist, at least one."""
        ...

    def endpoint(self) -> str:
        """Return the URL of the gateway, without checking that it answers."""
        ...

    def metrics(self) -> Mapping[str, str]:
        """Return where to look at metrics: a URL by `LOCATION--NAME` of each cluster."""
        ...

    def access_log(self, wanted: Wanted) -> AccessLog:
        """Return the access logs of the gateways."""
        ...

    def leftovers(self) -> list[Leftover]:
        """Return what exists of the stack, and what GKE made for it, in the order of removal."""
        ...

    def remove(self, leftover: Leftover) -> None:
        """Remove something that GKE left; the stack's own is Pulumi's to remove."""
        ...

    def find(self, kind: str, inputs: Mapping[str, Any]) -> str:
        """Return the identifier of a resource by Pulumi type and inputs; empty if there is none."""
        ...

    def pulumi(self) -> PulumiCli:
        """Return the Pulumi CLI, in the environment in which it finds the stack's state."""
        ...
