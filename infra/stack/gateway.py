"""The gateway: the one endpoint in front of every model."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import Hostname, Name, ProjectId, RegionName, StackModel
from infra.stack.edge.front import Front, Publish


class Exposure(StrEnum):
    """Who can reach the endpoint."""

    EXTERNAL = "external"
    INTERNAL = "internal"


class Dns(StackModel):
    """A zone of Cloud DNS that exists, in which the stack makes the records of its host name."""

    zone: Name
    """Name of the zone."""
    project: ProjectId | None = None
    """Project of the zone; the platform's own project by default."""
    ttl_seconds: int = Field(default=300, ge=5, le=86_400)
    """How long others may remember an address."""


class Gateway(StackModel):
    """One gateway for each region."""

    exposure: Exposure
    """External for the internet, internal for the network."""
    hostname: Hostname | None = None
    """Name in its certificate; required with a certificate."""
    certificate: Name | None = None
    """Name of a regional Certificate Manager certificate; without one the gateway speaks HTTP."""
    log_percent: float = Field(default=10, ge=0, le=100)
    """Share of requests with a line in the load balancers' access logs, which cost by size."""
    requests_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """External only: requests that one address may make of one model in a minute, 600 by default;
    Cloud Armor refuses more with 429. Clients behind one NAT are one address."""
    picker_replicas: int | None = Field(default=None, ge=1, le=5)
    """Pickers of each model: one is active, the others take over. By default 2 where protection is
    on, and 1 elsewhere: while a picker is away requests go to any replica."""
    router_replicas: int | None = Field(default=None, ge=1, le=20)
    """Routers, which read the model out of each request, and catalogues of models. By default 3
    where protection is on, and 2 elsewhere."""
    issue_certificate: bool = False
    """Makes that certificate in each region, authorized by records in `dns.zone`; by default it
    must exist and be ACTIVE."""
    dns: Dns | None = None
    """Makes the records of the host name; by default they are made elsewhere."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """Port it listens on; 443 with a certificate and 80 without by default."""
    front: Front | None = None
    """One endpoint over all regions: `dns` answers with the address of the nearest healthy region,
    `global` is one load balancer with one address. By default each region has its own endpoint."""
    drain: tuple[RegionName, ...] = ()
    """Regions that `front` sends nobody to; their gateways go on answering."""
    publish: Publish | None = None
    """Internal gateways, and those behind `front: global`, only: who else may connect to them."""
