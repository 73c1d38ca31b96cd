"""Client certificates as a proof of identity, for the gate of a region."""

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

from pydantic import Field

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.settings.fields import Name


class ClientCertificatesArgs(TypedDict):
    """Client certificates that the global load balancer in front of the Gateway validates."""

    networks: Annotated[list[str], Field(min_length=1)]
    """Published range of the region (CIDR): the source of that load balancer's connections. The
    gate ignores certificates from elsewhere."""
    teams: Annotated[dict[str, Name], Field(min_length=1)]
    """Team for each identity: a SPIFFE ID, `dns:NAME` or `sha256:` with the hexadecimal fingerprint
    of a certificate."""


def check_networks(found: ClientCertificatesArgs) -> Iterator[InputError]:
    """Yield the ranges that are none."""
    for at, network in enumerate(found["networks"]):
        try:
            ipaddress.ip_network(network)
        except ValueError:
            yield InputError(join("certificates", "networks", at), "must be a CIDR", network)


def described(found: ClientCertificatesArgs) -> dict[str, Any]:
    """Return the settings in the program's format."""
    return {"from": list(found["networks"]), "teams": dict(found["teams"])}
