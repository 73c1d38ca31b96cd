"""Models that run elsewhere, behind the same endpoint, and as the fallback of a pool."""
