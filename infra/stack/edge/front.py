"""The front: one endpoint over the gateways of all regions."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from infra.stack.base.fields import ProjectId, StackModel


class Front(StrEnum):
    """What leads clients to the gateways of several regions."""

    DNS = "dns"
    GLOBAL = "global"


class Publish(StackModel):
    """Offers the gateways of the regions to other networks by Private Service Connect."""

    consumers: dict[ProjectId, PositiveInt] = Field(min_length=1)
    """How many endpoints each project may connect to the gateway of a region."""
