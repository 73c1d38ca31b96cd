"""Assumed usage of a platform, for cost estimates. No stack defines it."""

from dataclasses import asdict, dataclass
from math import inf

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
    images_gib: float | None = None
    """GiB of container images in the repositories of each region, also those that are pulled
    through them; None: unknown, so the images have no price."""
    events_gib: float | None = None
    """GiB of messages per month that each stream and pipeline of a region reads from Pub/Sub; None:
    unknown, so Pub/Sub has no price."""

    def __post_init__(self) -> None:
        """Reject negative and infinite values.

        Raises:
            InputError: a number is negative, infinite or not a number.
        """
        for field, value in asdict(self).items():
            if value is not None and not 0 <= value < inf:
                raise InputError(field, "must be 0 or more", value)

    def __str__(self) -> str:
        """Return the assumptions as a sentence."""
        images = "" if self.images_gib is None else f", {self.images_gib:g} GiB of images a region"
        events = (
            ""
            if self.events_gib is None
            else f", {self.events_gib:g} GiB of events a month for each stream and pipeline"
        )
        return (
            f"{self.traffic_gib:g} GiB of answers a month in each region, "
            f"{self.logs_gib_per_node:g} GiB of logs a month and node, "
            f"{self.series_per_replica} time series a replica{images}{events}"
        )


DEFAULT_USAGE = Usage()
NOT_DEDUCTED = (
    "GKE's free tier (74.40 USD a month and billing account, for zonal and Autopilot clusters; "
    "cloud.google.com/kubernetes-engine/pricing), 50 GiB of logs a month and project "
    "(cloud.google.com/stackdriver/pricing), 0.5 GB of images a billing account "
    "(cloud.google.com/artifact-registry/pricing) and 10 GiB of Pub/Sub a month "
    "and billing account (cloud.google.com/pubsub/pricing)"
)
"""Free tiers, not deducted since other projects and clusters of the account may use them up; read
2026-11-22, the one for images 2026-11-26, the one for Pub/Sub 2026-11-30."""
