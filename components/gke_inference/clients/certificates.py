"""Client certificates as a proof of identity, for the gate of a region."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, TypedDict

import pulumi

_SPIFFE = re.compile(r"spiffe://[a-z0-9._-]{1,255}((/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+)+)")
"""Form of the SPIFFE ID of a workload: a trust domain and a path (SPIFFE-ID, sections 2.1 to 2.4;
X509-SVID, section 3.1; github.com/spiffe/spiffe/tree/main/standards)."""
_LONGEST_SPIFFE = 2048
_OTHER = re.compile(r"dns:[a-z0-9*.-]+|sha256:[0-9a-f]{64}")
IDENTITY_RULE = (
    "must be a SPIFFE ID with a path (spiffe://example.com/name, at most 2048 bytes), dns:NAME or"
    " sha256: with 64 hexadecimal digits"
)


class ClientCertificatesArgs(TypedDict):
    """Client certificates that the global load balancer in front of the Gateway validates."""

    networks: list[str]
    """Published range of the region (CIDR): the source of that load balancer's connections. The
    gate ignores certificates from elsewhere."""
    teams: dict[str, str]
    """Team for each identity: a SPIFFE ID, `dns:NAME` or `sha256:` with the hexadecimal fingerprint
    of a certificate."""


def is_identity(text: str) -> bool:
    """Return whether a text is the identity of a certificate.

    Google's load balancer passes no SPIFFE ID that has another form or is longer
    (docs.cloud.google.com/load-balancing/docs/https/custom-headers), so it would match nobody.
    """
    if len(text) <= _LONGEST_SPIFFE and _SPIFFE.fullmatch(text):
        return True
    return _OTHER.fullmatch(text) is not None


def check_certificates(found: ClientCertificatesArgs, teams: Iterable[str]) -> None:
    """Validate the settings of client certificates.

    Raises:
        pulumi.InputPropertyError: A network, an identity or a team is wrong.
    """
    for field in ("networks", "teams"):
        if not found[field]:
            path = f"certificates.{field}"
            raise pulumi.InputPropertyError(path, "must have one entry or more, got none")
    for at, network in enumerate(found["networks"]):
        try:
            ipaddress.ip_network(network)
        except ValueError:
            path = f"certificates.networks[{at}]"
            raise pulumi.InputPropertyError(path, f"must be a CIDR, got {network!r}") from None
    for identity, team in found["teams"].items():
        if not is_identity(identity):
            rule = f"{IDENTITY_RULE}, got {identity!r}"
            raise pulumi.InputPropertyError("certificates.teams", rule)
        if team not in teams:
            path = f"certificates.teams.{identity}"
            known = ", ".join(sorted(teams))
            raise pulumi.InputPropertyError(path, f"must be one of {known}, got {team!r}")


def described(found: ClientCertificatesArgs) -> dict[str, Any]:
    """Return the settings in the program's format."""
    return {"from": list(found["networks"]), "teams": dict(found["teams"])}
