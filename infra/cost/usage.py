"""Assumed usage of a platform, for cost estimates. No stack defines it."""

from dataclasses import dataclass

from gke_inference.catalogue.input_error import InputError


@dataclass(frozen=True)
class Usage:
    """Assumptions, which are printed with the cost."""

    traffic_gib: float = 0.0
    """GiB per month sent to clients through each region's gateway. Inbound traffic is assumed to be
    equal."""
    logs_gib_per_node: float = 2.0
    """GiB of logs per month for each node and its pods."""
    series_per_replica: int = 500
    """Time series that each model replica exports to Managed Prometheus."""

    def __post_init__(self) -> None:
        """Reject negative values.

        Raises:
            InputError: a number is negative.
        """
        for field in ("traffic_gib", "logs_gib_per_node", "series_per_replica"):
            if getattr(self, field) < 0:
                raise InputError(field, "must be 0 or more", getattr(self, field))

    def __str__(self) -> str:
        """Return the assumptions as a sentence."""
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
"""Free tiers, not deducted since other projects and clusters of the account may use them up; read
2026-11-22."""
