"""Secrets, and their versions from stacks."""

from twin.providers.gcp.effects import secret_manager, secret_store
from twin.providers.gcp.effects.base import Effect, World
from twin.wire.property_values import Json
from twin.world.store import Record


class SecretEffect(Effect):
    """Start of the server that serves secrets to pods and operators."""

    def create(self, world: World, record: Record) -> Json:
        """Start the server if it does not run."""
        del record
        secret_manager.url(world.paths)
        return {}


class SecretVersionEffect(Effect):
    """Check of the payload, and names of the version."""

    def create(self, world: World, record: Record) -> Json:
        """Return the version's number and full name."""
        del world
        secret_store.payload_of(record.inputs)
        enabled = record.inputs.get("enabled") is not False
        number = record.id.rpartition("/")[2]
        return {"name": record.id, "version": number, "enabled": enabled}
