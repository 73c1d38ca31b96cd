"""Grants on tables of BigQuery, the first of which starts its server."""

from twin.providers.gcp.bigquery import server
from twin.providers.gcp.effects.base import Effect, World
from twin.wire.property_values import Json
from twin.world.store import Record


class TableMemberEffect(Effect):
    """A grant, which the server reads from the twin's cloud."""

    def create(self, world: World, record: Record) -> Json:
        """Start the server if it does not run."""
        del record
        server.ensure(world.paths)
        return {}
