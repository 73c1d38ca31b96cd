"""Protection of a global load balancer: a rate limit per IP address, and the minimum TLS version.

The global counterparts of `gke_inference.gateway.edge`.
"""

import pulumi
from pulumi_gcp import compute

from gke_inference.gateway.edge import throttling_rules


def security_policy(
    name: str,
    physical_name: str,
    *,
    project: str,
    requests_per_minute: int,
    opts: pulumi.ResourceOptions,
) -> "compute.SecurityPolicy":
    """Build the policy for all backend services. Each counts separately."""
    return compute.SecurityPolicy(
        name,
        description="Requests of one address a minute; what is more is refused with 429.",
        name=physical_name,
        project=project,
        rules=throttling_rules(requests_per_minute),
        type="CLOUD_ARMOR",
        opts=opts,
    )


def ssl_policy(
    name: str, physical_name: str, *, project: str | None, opts: pulumi.ResourceOptions
) -> "compute.SSLPolicy":
    """Build the SSL policy of the proxy. Without one, load balancers accept TLS 1.0."""
    return compute.SSLPolicy(
        name,
        min_tls_version="TLS_1_2",
        name=physical_name,
        profile="MODERN",
        project=project,
        opts=opts,
    )
