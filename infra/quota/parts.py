"""One ask of one quota, the unit that needs are summed from."""

from dataclasses import dataclass, replace

from gke_inference.catalogue.quotas import Metric


@dataclass(frozen=True)
class Ask:
    """What one part of a stack can ask of one quota at most."""

    metric: Metric
    region: str | None
    """None for a quota of the whole project."""
    kind: str
    """`accelerator`, `machine`, `disk`, `address` or `network`."""
    who: str
    amount: int
    accelerator: str | None = None
    provisioning: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    most: int | None = None
    """Where node auto-provisioning stops."""

    def of(self, amount: int) -> "Ask":
        """Return the same ask with another amount."""
        return replace(self, amount=amount)

    def joined(self, other: "Ask") -> "Ask":
        """Return the other ask, with the ways to buy and the zones of both."""
        return replace(
            other,
            provisioning=tuple(dict.fromkeys((*other.provisioning, *self.provisioning))),
            zones=tuple(dict.fromkeys((*other.zones, *self.zones))),
        )
