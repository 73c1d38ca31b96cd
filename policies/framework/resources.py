"""One resource, as rules see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class Resource:
    """One Pulumi resource, or one rendered Kubernetes object."""

    type: str
    """Type token, such as `gcp:container/cluster:Cluster`."""
    name: str
    """Logical name."""
    urn: str
    """Its identifier: a URN, or the title of a rendered object."""
    props: Properties
    """Inputs at preview, outputs afterwards, with keys as in the cloud's API (camelCase)."""
    file: str = ""
    """Source file, empty while Pulumi is running."""

    @property
    def identity(self) -> str:
        """Its identity in a finding."""
        return self.urn

    @property
    def kind(self) -> str:
        """Last part of the type: `Cluster`, `Deployment`."""
        return self.type.rpartition(":")[2]

    @property
    def stack(self) -> str:
        """Name of the stack, from the URN."""
        parts = self.urn.split(":")
        return parts[2] if len(parts) > 2 else ""
