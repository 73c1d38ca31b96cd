"""Facts about Google's load balancers."""

HEALTH_CHECK_RANGES = ("35.191.0.0/16", "130.211.0.0/22")
"""Source ranges of health checks
(docs.cloud.google.com/load-balancing/docs/health-check-concepts)."""
CATALOGUE_PATH = "/v1/models"
"""Path of a Gateway's model list."""
