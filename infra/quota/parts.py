"""The smallest unit of a quota need: one amount of one quota."""

from dataclasses import dataclass, replace

from gke_inference.catalogue.quotas import Metric


@dataclass(frozen=True)
class QuotaRequirement:
    """The maximum amount of one quota that one part of a stack can request."""

    metric: Metric
    region: str | None
    """None for a project-wide quota."""
    kind: str
    """`accelerator`, `machine`, `disk`, `address` or `network`."""
    who: str
    amount: int
    accelerator: str | None = None
    provisioning: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    most: int | None = None
    """Limit of node auto-provisioning."""

    def of(self, amount: int) -> "QuotaRequirement":
        """Return the same requirement with a different amount."""
        return replace(self, amount=amount)

    def joined(self, other: "QuotaRequirement") -> "QuotaRequirement":
        """Return the other requirement, with the provisioning models and zones of both."""
        return replace(
            other,
            provisioning=tuple(dict.fromkeys((*other.provisioning, *self.provisioning))),
            zones=tuple(dict.fromkeys((*other.zones, *self.zones))),
        )
