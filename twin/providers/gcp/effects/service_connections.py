"""Service attachments and what connects to them (rule cloud.psc-connection)."""

from typing import Final

from twin.providers.gcp.effects.address import address
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.resources.references import ATTACHMENT
from twin.providers.gcp.resources.service_connections import is_endpoint, settle
from twin.wire.property_values import Json
from twin.world.store import Record

_DECIDED: Final = ("connectedEndpoints", "pscConnectionId", "pscConnectionStatus")


class ConnectionEffect(Effect):
    """Decision about all connections when one side of them is created, changed or deleted."""

    def create(self, world: World, record: Record) -> Json:
        """Return the status of the new resource's connections, and an endpoint's address."""
        settle(world.store)
        outputs = _decided(world, record)
        if is_endpoint(record.inputs) and not record.outputs.get("ipAddress"):
            outputs["ipAddress"] = address(world, world.store.next_number("addresses"))
        return outputs

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Apply a changed attachment; return the status of its connections."""
        settle(world.store, {record.id: outputs} if record.type == ATTACHMENT else None)
        return _decided(world, record)

    def delete(self, world: World, record: Record) -> None:
        """Close the connections of an attachment, or give its place to another consumer."""
        del record
        settle(world.store)


def _decided(world: World, record: Record) -> Json:
    now = world.store.get(record.type, record.id) or record
    return {key: now.outputs[key] for key in _DECIDED if key in now.outputs}
