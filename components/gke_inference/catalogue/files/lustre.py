"""Managed Lustre: performance tiers with their capacities, and the network that it needs.

Sources, stored copies read 2026-11-23: docs.cloud.google.com/managed-lustre/docs/performance-tiers
(tiers) and docs.cloud.google.com/managed-lustre/docs/vpc (ranges and the firewall rule).
"""

from typing import Final

from gke_inference.catalogue.files.sizes import Sizes

DRIVER: Final = "lustre.csi.storage.gke.io"
FILE_SYSTEM: Final = "shared"
"""File system name of instances that the platform creates: at most eight letters and digits. A node
cannot mount two instances with the same name."""
PORT: Final = "988"
"""Port of Lustre. An instance with `gkeSupportEnabled` listens on 6988 instead, which only nodes
before GKE 1.33.2-gke.4655000 need."""
SERVICE: Final = "servicenetworking.googleapis.com"
"""Producer of the peering (private services access) that connects instances to a network."""
NARROWEST_PREFIX: Final = 23
"""Prefix length of the range that each instance takes from the peering's range."""
SIZES: Final = {
    125: Sizes(((72_000, 12_240_000, 72_000),)),
    250: Sizes(((36_000, 6_120_000, 36_000), (6_336_000, 40_032_000, 288_000))),
    500: Sizes(((18_000, 3_060_000, 18_000), (3_168_000, 20_016_000, 144_000))),
    1000: Sizes(((9000, 1_530_000, 9000), (1_584_000, 10_008_000, 72_000))),
}
"""Capacities by performance tier in MB/s per TiB. The Dynamic tier, which starts at 472,000 GiB, is
left out."""
