"""Facts about Google's load balancers."""

from enum import StrEnum
from typing import NamedTuple

HEALTH_CHECK_RANGES = ("35.191.0.0/16", "130.211.0.0/22")
"""Source ranges of health checks
(docs.cloud.google.com/load-balancing/docs/health-check-concepts)."""
HTTPS_PORT = 443
REDIRECT_PORT = 80
"""Port on which a global front with the default port answers with a redirect to HTTPS."""
CATALOGUE_PORT = 8080
"""Port of the pods that serve a Gateway's model list."""
BACKEND_PORTS = ("8000-8001", str(CATALOGUE_PORT), "9002-9005", "9010-9011")
"""Pod ports that proxies and health checks of load balancers reach: engines by HTTP and by gRPC,
the catalog, pickers and the body router, and the client gate with its health check. In a Shared VPC
nothing else opens them: GKE may write no firewall rules into a host project."""
MAX_BODY_BYTES = 8 << 20
"""Most bytes of a request body that names a model: the router and the gate refuse larger ones."""
CLIENT_OF_A_GATEWAY = 2
"""Position of the client's address in X-Forwarded-For behind one load balancer, counted from the
end (docs.cloud.google.com/load-balancing/docs/https#x-forwarded-for_header)."""
CATALOGUE_PATH = "/v1/models"
"""Path of a Gateway's model list."""
HEALTH_PATH = "/healthz"
"""Path on which a Gateway answers 200 to everyone, without a credential. Probes of Cloud DNS and
uptime checks have none, and a probe of Cloud DNS accepts 200 alone."""


def health_path(catalogue_path: str) -> str:
    """Return the path for probes beside a model list: a team's has the prefix of its list."""
    return catalogue_path.removesuffix(CATALOGUE_PATH) + HEALTH_PATH


class Balancer(StrEnum):
    """Application Load Balancers, as the names of their metrics distinguish them.

    cloud.google.com/monitoring/api/metrics_gcp_i_o, loadbalancing.
    """

    GLOBAL_EXTERNAL = "https"
    INTERNAL = "https_internal"
    REGIONAL_EXTERNAL = "https_external_regional"

    @property
    def series(self) -> str:
        """Return the first part of the names of its series in PromQL, before `_request_count`."""
        return f"loadbalancing_googleapis_com:{self}"


class Balancers(NamedTuple):
    """The load balancers of a platform, by what they see."""

    clients: Balancer
    """The one that clients connect to: every request and its answer."""
    gateways: Balancer
    """Those of the regions' Gateways: the backends of models."""


def balancers(exposure: str, *, has_front: bool) -> Balancers:
    """Return the load balancers that write a platform's series.

    Args:
        exposure: `external` or `internal`: from where clients connect.
        has_front: Whether a `GlobalFront` is before the Gateways, which are internal then.
    """
    if has_front:
        return Balancers(Balancer.GLOBAL_EXTERNAL, Balancer.INTERNAL)
    own = Balancer.REGIONAL_EXTERNAL if exposure == "external" else Balancer.INTERNAL
    return Balancers(own, own)
