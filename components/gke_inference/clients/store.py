"""A store in the format of the callout."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Store:
    """A store, and how the gate connects to it."""

    address: str
    certificates: str | None = None
    """CA certificates of the store, or None if it has no TLS."""

    def settings(self) -> dict[str, Any]:
        """Return the store in the program's format."""
        if self.certificates is None:
            return {"address": self.address}
        return {"address": self.address, "ca": self.certificates, "tls": True}
