"""Secrets and the versions that stacks make of them."""

from twin.providers.gcp.effects import secret_manager, secret_store
from twin.providers.gcp.effects.base import Effect, World
from twin.wire.property_values import Json
from twin.world.store import Record


class SecretEffect(Effect):
    """Starts what serves secrets to pods and operators."""

    def create(self, world: World, record: Record) -> Json:
        """Start the server where it does not run."""
        del record
        secret_manager.url(world.paths)
        return {}


class SecretVersionEffect(Effect):
    """Checks the payload and fills in what names the version."""

    def create(self, world: World, record: Record) -> Json:
        """Return the version's number and full name."""
        del world
        secret_store.payload_of(record.inputs)
        enabled = record.inputs.get("enabled") is not False
        number = record.id.rpartition("/")[2]
        return {"name": record.id, "version": number, "enabled": enabled}
