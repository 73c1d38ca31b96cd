"""Facts about Google's load balancers."""

HEALTH_CHECK_RANGES = ("35.191.0.0/16", "130.211.0.0/22")
"""Where they probe from (docs.cloud.google.com/load-balancing/docs/health-check-concepts)."""
CATALOGUE_PATH = "/v1/models"
"""Where a Gateway lists its models."""
