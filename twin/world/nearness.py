"""Approximate distances between regions, for anycast addresses and Cloud DNS."""

from typing import Final

CLIENT_REGION: Final = "x-twin-client-region"
"""Header with the region that a client of the twin calls from (rule front.nearest)."""
