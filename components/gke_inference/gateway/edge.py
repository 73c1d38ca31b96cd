"""Protection of a gateway's edge: limits of rate and size, and the minimum TLS version.

Both are regional, like the load balancers: Cloud Armor backend policies
(docs.cloud.google.com/armor/docs/rate-limiting-overview, rules-language-reference) and SSL policies
(docs.cloud.google.com/load-balancing/docs/ssl-policies-concepts).
"""

from typing import Any

import pulumi
from pulumi_gcp import compute

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.load_balancing import MAX_BODY_BYTES
from gke_inference.catalogue.versions import api

_INTERVAL_SECONDS = 60
LARGEST_DECLARED_BYTES = 2 * MAX_BODY_BYTES
"""Largest declared size of a body that Cloud Armor lets through, except of batch files. It refuses
with 403 and a page of its own, so a body that is only a little too large still gets the 413 of the
body router, which says what is wrong."""
_LAST_PRIORITY = 2_147_483_647
_FILE_PATHS = ("/v1/files",)
"""Paths whose bodies are files of batches, which the batch service limits."""
_EVERYBODY = {"config": {"src_ip_ranges": ["*"]}, "versioned_expr": "SRC_IPS_V1"}


def edge_rules(requests_per_minute: int) -> list[Any]:
    """Return the rules of a regional or global policy: a size, and a limit per IP address.

    The size is a second line: a body can be sent in chunks, without a length, and then only the
    programs behind the load balancer see how large it is.
    """
    length = "request.headers['content-length']"
    is_file = " || ".join(f"request.path.startsWith('{path}')" for path in _FILE_PATHS)
    return [
        {
            "action": "deny(403)",
            "description": "Bodies that no program behind the load balancer accepts.",
            "match": {
                "expr": {
                    "expression": f"has({length}) && int({length}) > {LARGEST_DECLARED_BYTES} "
                    f"&& !({is_file})"
                }
            },
            "priority": 900,
        },
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
        # Google adds it if it is missing, which would show as a change in every preview.
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
    """Build the policy for all backends. Each backend counts separately."""
    return compute.RegionSecurityPolicy(
        name,
        description="Sizes of bodies, and requests of one address a minute.",
        name=physical_name,
        project=project,
        region=region,
        rules=edge_rules(requests_per_minute),
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
    """Build the SSL policy of the listener. Without one, load balancers accept TLS 1.0."""
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
    """Return the GCPGatewayPolicy of a Gateway: SSL policy and access from other regions."""
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
        spec={"default": default, "targetRef": api("gateway").reference(gateway)},
    )
