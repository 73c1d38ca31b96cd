"""Validation of client certificates by a global load balancer.

The load balancer lets requests without a valid certificate pass and describes the certificate in
headers, which replace those of the client. The gate decides
(docs.cloud.google.com/load-balancing/docs/mtls).
"""

from collections.abc import Sequence
from typing import Final

import pulumi
from pulumi_gcp import certificatemanager, networksecurity

_MODE: Final = "ALLOW_INVALID_OR_MISSING_CLIENT_CERT"
_PEM: Final = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")
CERTIFICATE_HEADERS: Final = (
    "X-Client-Cert-Present: {client_cert_present}",
    "X-Client-Cert-Chain-Verified: {client_cert_chain_verified}",
    "X-Client-Cert-Error: error={client_cert_error}",
    "X-Client-Cert-SPIFFE: id={client_cert_spiffe_id}",
    "X-Client-Cert-DNSName-SANs: names={client_cert_dnsname_sans}",
    "X-Client-Cert-Hash: sha256={client_cert_sha256_fingerprint}",
)
"""Custom request headers of its backend services, which the gate reads (workloads/gateway/callout).

Variables can be empty, and it is not documented whether an empty header replaces that of a client:
text in front of them makes sure that no value is empty."""


def is_certificate(text: str) -> bool:
    """Return whether a text has the form of one certificate in PEM format."""
    stripped = text.strip()
    framed = stripped.startswith(_PEM[0]) and stripped.endswith(_PEM[1])
    return framed and stripped.count(_PEM[0]) == 1


def check_authorities(authorities: Sequence[str]) -> None:
    """Validate the certificates of the trusted authorities.

    Raises:
        pulumi.InputPropertyError: There is none, or one is not a certificate.
    """
    if not authorities:
        raise pulumi.InputPropertyError("clientAuthorities", "must have one or more, got none")
    for at, text in enumerate(authorities):
        if not is_certificate(text):
            rule = f"must be one certificate in PEM format, got {text[:40]!r}"
            raise pulumi.InputPropertyError(f"clientAuthorities[{at}]", rule)


def client_validation(
    name: str,
    cloud_name: str,
    authorities: Sequence[str],
    *,
    labels: dict[str, str],
    project: str,
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    """Build the policy that validates client certificates; return its ID."""
    trust = certificatemanager.TrustConfig(
        f"{name}-clients",
        labels=labels,
        location="global",
        name=cloud_name,
        project=project,
        trust_stores=[{"trust_anchors": [{"pem_certificate": text} for text in authorities]}],
        opts=opts,
    )
    policy = networksecurity.ServerTlsPolicy(
        f"{name}-clients",
        labels=labels,
        location="global",
        mtls_policy={
            "client_validation_mode": _MODE,
            "client_validation_trust_config": trust.id,
        },
        name=cloud_name,
        project=project,
        opts=opts,
    )
    return policy.id
