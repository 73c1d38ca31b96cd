"""Versions of secrets, numbered as Secret Manager does."""

from twin.providers.gcp.effects.base import Effect, World
from twin.wire.property_values import Json
from twin.world.store import Record


class SecretVersionEffect(Effect):
    """Fills in what names the version."""

    def create(self, world: World, record: Record) -> Json:
        """Return the version's number and full name."""
        del world
        return {"name": record.id, "version": record.id.rpartition("/")[2], "enabled": True}
