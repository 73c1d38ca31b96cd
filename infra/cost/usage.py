"""How much a platform is used: what the cost of a stack assumes, as no stack says it."""

from dataclasses import dataclass

from gke_inference.catalogue.input_error import InputError


@dataclass(frozen=True)
class Usage:
    """What is assumed, and printed with the cost."""

    traffic_gib: float = 0.0
    """GiB a month that clients get through each region's gateway; as much is taken to come in."""
    logs_gib_per_node: float = 2.0
    """GiB of logs a month of each node and its pods."""
    series_per_replica: int = 500
    """Time series that a replica of a model exports to Managed Prometheus."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            InputError: a number is negative.
        """
        for field in ("traffic_gib", "logs_gib_per_node", "series_per_replica"):
            if getattr(self, field) < 0:
                raise InputError(field, "must be 0 or more", getattr(self, field))

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"{self.traffic_gib:g} GiB of answers a month in each region, "
            f"{self.logs_gib_per_node:g} GiB of logs a month and node, "
            f"{self.series_per_replica} time series a replica"
        )


DEFAULT_USAGE = Usage()
NOT_DEDUCTED = (
    "GKE's free tier (74.40 USD a month and billing account, for zonal and Autopilot clusters; "
    "cloud.google.com/kubernetes-engine/pricing) and 50 GiB of logs a month and project "
    "(cloud.google.com/stackdriver/pricing)"
)
"""Free tiers, which other projects and clusters of the account may use up; read 2026-11-22."""
