"""Protection of a global load balancer: limits of rate and size, and the minimum TLS version.

The global counterparts of `gke_inference.gateway.edge`.
"""

import pulumi
from pulumi_gcp import compute

from gke_inference.gateway.edge import edge_rules


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
        description="Sizes of bodies, and requests of one address a minute.",
        name=physical_name,
        project=project,
        rules=edge_rules(requests_per_minute),
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
