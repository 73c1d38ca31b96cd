"""The gateway: the one endpoint in front of every model."""

from enum import StrEnum

from pydantic import Field

from infra.stack.fields import Hostname, Name, StackModel


class Exposure(StrEnum):
    """Who can reach the endpoint."""

    EXTERNAL = "external"
    INTERNAL = "internal"


class Gateway(StackModel):
    """One gateway for each region."""

    exposure: Exposure
    """External for the internet, internal for the network."""
    hostname: Hostname | None = None
    """Name in its certificate; required with a certificate."""
    certificate: Name | None = None
    """Name of a regional Certificate Manager certificate; without one the gateway speaks HTTP."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """Port it listens on; 443 with a certificate and 80 without by default."""
