"""Managed Lustre: files are deleted with the instance, and a peering outlives its instances."""

import shutil
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.resources import lustre
from twin.wire.property_values import CloudError, Json
from twin.world.store import Record


class LustreEffect(Effect):
    """An instance's folder (rule cloud.lustre)."""

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Check that the capacity may change as asked."""
        del world
        lustre.check_change(record.outputs, outputs)
        return {}

    def delete(self, world: World, record: Record) -> None:
        """Remove the files of the instance."""
        shutil.rmtree(folder_of(world.paths, record.name), ignore_errors=True)


class PeeringEffect(Effect):
    """A network's peering with Google's services."""

    def check_delete(self, world: World, record: Record) -> None:
        """Reject the deletion while an instance uses the peering."""
        if lustre.users(str(record.inputs.get("network")), world.store):
            text = (
                "Failed to delete connection; Producer services (e.g. CloudSQL, Cloud Memstore, "
                "etc.) are still using this connection."
            )
            raise CloudError(400, text, "failedPrecondition")


def folder_of(paths: TwinPaths, instance: str) -> Path:
    """Return the folder with the files of an instance."""
    return paths.root / "lustre" / instance
