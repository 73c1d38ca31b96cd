"""Filestore instances: files are deleted with the instance."""

import shutil
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.base import Effect, World
from twin.world.store import Record


class FilestoreEffect(Effect):
    """Deletion of an instance's folders (rule cloud.filestore)."""

    def delete(self, world: World, record: Record) -> None:
        """Remove the files in the shares of the instance."""
        shutil.rmtree(folder_of(world.paths, record.name), ignore_errors=True)


def folder_of(paths: TwinPaths, instance: str) -> Path:
    """Return the folder with the shares of an instance."""
    return paths.root / "filestore" / instance
