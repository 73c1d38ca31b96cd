"""Models that run outside the platform, behind the same endpoint, and as fallbacks of pools."""
