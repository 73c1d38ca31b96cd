"""Versions of secrets, numbered as Secret Manager does."""

from twin.cloud.effects.base import Effect, World
from twin.cloud.store import Record
from twin.cloud.values import Json


class SecretVersionEffect(Effect):
    """Fills in what names the version."""

    def create(self, world: World, record: Record) -> Json:
        """Return the version's number and full name."""
        del world
        return {"name": record.id, "version": record.id.rpartition("/")[2], "enabled": True}
