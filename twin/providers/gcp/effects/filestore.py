"""Filestore instances: their files go with them."""

import shutil
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.base import Effect, World
from twin.world.store import Record


class FilestoreEffect(Effect):
    """Removes the folders of an instance with it (rule cloud.filestore)."""

    def delete(self, world: World, record: Record) -> None:
        """Remove what was written to the shares of the instance."""
        shutil.rmtree(folder_of(world.paths, record.name), ignore_errors=True)


def folder_of(paths: TwinPaths, instance: str) -> Path:
    """Return the folder with the shares of an instance."""
    return paths.root / "filestore" / instance
