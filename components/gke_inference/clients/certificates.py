"""Client certificates as a proof of identity, for the gate of a region."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, TypedDict

import pulumi

_IDENTITY = re.compile(r"spiffe://[^\s,]+|dns:[a-z0-9*.-]+|sha256:[0-9a-f]{64}")
IDENTITY_RULE = "must be a SPIFFE ID, dns:NAME or sha256: with 64 hexadecimal digits"


class ClientCertificatesArgs(TypedDict):
    """Client certificates that the global load balancer in front of the Gateway validates."""

    networks: list[str]
    """Published range of the region (CIDR): the source of that load balancer's connections. The
    gate ignores certificates from elsewhere."""
    teams: dict[str, str]
    """Team for each identity: a SPIFFE ID, `dns:NAME` or `sha256:` with the hexadecimal fingerprint
    of a certificate."""


def is_identity(text: str) -> bool:
    """Return whether a text is the identity of a certificate."""
    return _IDENTITY.fullmatch(text) is not None


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
