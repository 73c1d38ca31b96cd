"""The interface of commands to a deployed stack, on the twin or in Google Cloud.

A command takes a `Backend` and never checks which one it is. Operations that both support belong
here; operations of only one (scenarios, prerequisites of a project) do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from scripts.backend.drift import Drift
from scripts.observe.access_log import Entry
from scripts.shared.clusters import Cluster
from scripts.shared.pulumi_cli import PulumiCli


class Maker(StrEnum):
    """Creator of a leftover, and so who removes it."""

    STACK = "the stack"
    """`pulumi destroy` removes it."""
    GKE = "GKE"
    """A controller of a cluster; nothing removes it once the cluster is gone."""
    OTHERS = "others"
    """Managed elsewhere, in the stack's network; its owner removes it."""


@dataclass(frozen=True)
class Leftover:
    """A resource that still exists although a destroyed stack has none."""

    kind: str
    """Kind, such as `firewall rule`."""
    name: str
    """Name, with its location if it has one."""
    maker: Maker = Maker.STACK
    path: str = ""
    """Identifier with which the backend removes it."""
    has_data: bool = False
    """Whether its removal loses data, as with a disk."""

    def __str__(self) -> str:
        """Return the leftover as a line of text."""
        by = "" if self.maker is Maker.STACK else f", made by {self.maker.value}"
        return f"{self.kind} {self.name}{by}"


@dataclass(frozen=True)
class Wanted:
    """Filters for access logs; an empty filter matches every line."""

    model: str = ""
    """Exact name of a model."""
    status: str = ""
    """Status code such as `503`, or class such as `5xx`."""
    trace: str = ""
    """Prefix of a trace ID."""
    minutes: int = 60
    """How far to look back, in a backend that keeps logs."""


class AccessLog(Protocol):
    """The access logs of a stack's gateways, read as they are written."""

    def read(self) -> list[Entry]:
        """Return the lines since the last call, oldest first.

        Raises:
            CommandError: They cannot be read.
        """
        ...


class Backend(Protocol):
    """A deployed stack. Every method raises `CommandError` with one line if it fails.

    `open_backend` yields one and closes its connections at the end.
    """

    @property
    def label(self) -> str:
        """Return the location for messages: `the twin`, `project acme-inference-prod`."""
        ...

    def clusters(self) -> Sequence[Cluster]:
        """Return the stack's clusters that exist, at least one."""
        ...

    def endpoint(self) -> str:
        """Return the URL of the gateway, without checking that it answers."""
        ...

    def metrics(self) -> Mapping[str, str]:
        """Return the URL of the metrics of each cluster, by `LOCATION--NAME`."""
        ...

    def access_log(self, wanted: Wanted) -> AccessLog:
        """Return the access logs of the gateways."""
        ...

    def leftovers(self) -> list[Leftover]:
        """Return what is left of the stack and of GKE's resources for it, in removal order."""
        ...

    def remove(self, leftover: Leftover) -> None:
        """Remove a leftover of GKE; Pulumi removes the stack's own resources."""
        ...

    def drift(self) -> list[Drift]:
        """Return the objects that somebody deleted or changed since the last update.

        In Google Cloud none: their state is in the user's backend, and `pulumi refresh` reads it.
        """
        ...

    def find(self, kind: str, inputs: Mapping[str, Any]) -> str:
        """Return a resource's identifier by Pulumi type and inputs; empty if there is none."""
        ...

    def pulumi(self) -> PulumiCli:
        """Return the Pulumi CLI with the environment for the stack's state."""
        ...
