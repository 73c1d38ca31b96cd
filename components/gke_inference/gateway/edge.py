"""What guards the edge of a gateway: a rate limit for each address, and the oldest TLS it speaks.

Both are regional, as the load balancers are: Cloud Armor backend policies
(docs.cloud.google.com/armor/docs/rate-limiting-overview) and SSL policies
(docs.cloud.google.com/load-balancing/docs/ssl-policies-concepts).
"""

from typing import Any

import pulumi
from pulumi_gcp import compute

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.versions import api

REQUESTS_PER_MINUTE = 600
"""Requests of one address to one backend before more are refused with 429."""
_INTERVAL_SECONDS = 60
_LAST_PRIORITY = 2_147_483_647
_EVERYBODY = {"config": {"src_ip_ranges": ["*"]}, "versioned_expr": "SRC_IPS_V1"}


def throttling_rules(requests_per_minute: int) -> list[Any]:
    """Returns the rules of a policy, regional or global: a limit for each address."""
    return [
        {
            "action": "throttle",
            "match": _EVERYBODY,
            "priority": 1000,
            "rate_limit_options": {
                "conform_action": "allow",
                "enforce_on_key": "IP",
                "exceed_action": "deny(429)",
                "rate_limit_threshold": {
                    "count": requests_per_minute,
                    "interval_sec": _INTERVAL_SECONDS,
                },
            },
        },
        # Google adds it where it is missing, which would be a difference at every preview.
        {"action": "allow", "match": _EVERYBODY, "priority": _LAST_PRIORITY},
    ]


def security_policy(
    name: str,
    physical_name: str,
    *,
    project: pulumi.Input[str] | None,
    region: pulumi.Input[str],
    requests_per_minute: int,
    opts: pulumi.ResourceOptions,
) -> "compute.RegionSecurityPolicy":
    """Builds the policy of every backend; each backend counts for itself."""
    return compute.RegionSecurityPolicy(
        name,
        description="Requests of one address a minute; what is more is refused with 429.",
        name=physical_name,
        project=project,
        region=region,
        rules=throttling_rules(requests_per_minute),
        type="CLOUD_ARMOR",
        opts=opts,
    )


def ssl_policy(
    name: str,
    physical_name: str,
    *,
    project: pulumi.Input[str] | None,
    region: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> "compute.RegionSslPolicy":
    """Builds the policy of the listener: without one load balancers accept TLS 1.0."""
    return compute.RegionSslPolicy(
        name,
        min_tls_version="TLS_1_2",
        name=physical_name,
        profile="MODERN",
        project=project,
        region=region,
        opts=opts,
    )


def gateway_policy(
    gateway: str, namespace: str, *, global_access: bool = False, ssl_policy_name: str | None = None
) -> Manifest:
    """Returns the GCPGatewayPolicy of a Gateway: its SSL policy, and access from other regions."""
    kind = api("gateway")
    default: Manifest = {}
    if global_access:
        default["allowGlobalAccess"] = True
    if ssl_policy_name is not None:
        default["sslPolicy"] = ssl_policy_name
    return manifest(
        "gateway_policy",
        gateway,
        namespace,
        labels=labels_for(gateway, "gateway"),
        spec={
            "default": default,
            "targetRef": {"group": kind.group, "kind": kind.kind, "name": gateway},
        },
    )
