"""Facts about Google's load balancers."""

HEALTH_CHECK_RANGES = ("35.191.0.0/16", "130.211.0.0/22")
"""Source ranges of health checks
(docs.cloud.google.com/load-balancing/docs/health-check-concepts)."""
CATALOGUE_PATH = "/v1/models"
"""Path of a Gateway's model list."""
HEALTH_PATH = "/healthz"
"""Path on which a Gateway answers 200 to everyone, without a credential. Probes of Cloud DNS and
uptime checks have none, and a probe of Cloud DNS accepts 200 alone."""


def health_path(catalogue_path: str) -> str:
    """Return the path for probes beside a model list: a team's has the prefix of its list."""
    return catalogue_path.removesuffix(CATALOGUE_PATH) + HEALTH_PATH
