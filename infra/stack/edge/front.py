"""The front: one endpoint for the gateways of all regions."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from gke_inference.settings import Settings
from gke_inference.settings.fields import ProjectId, RegionName


class Front(StrEnum):
    """How clients are routed to the gateways of several regions."""

    DNS = "dns"
    GLOBAL = "global"
    INTERNAL = "internal"


class Fleet(Settings):
    """The multi-cluster inference gateway of `front: internal`."""

    config_region: RegionName | None = None
    """Region whose cluster holds the Gateway and its routes. By default, the first region with
    models, by name. While it is down, the gateway serves with its last configuration."""
    target_utilization_percent: int = Field(default=60, ge=1, le=100)
    """Average KV cache use of a region's replicas, in percent, above which new requests overflow
    to the next region."""


class Publish(Settings):
    """Publishes the regional gateways to other networks with Private Service Connect."""

    consumers: dict[ProjectId, PositiveInt] = Field(min_length=1)
    """Maximum number of endpoints that each project may connect to the gateway of a region."""
