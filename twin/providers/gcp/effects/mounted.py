"""Files that pods write to mounted buckets: folders of the twin, outside the object storage."""

import shutil
from pathlib import Path

from twin.host.paths import TwinPaths


def folder(paths: TwinPaths, bucket: str) -> Path:
    """Return the folder of a mounted bucket."""
    return paths.volumes / "buckets" / bucket


def count(paths: TwinPaths, bucket: str) -> int:
    """Return the number of objects that pods have written to a bucket."""
    return sum(1 for file in folder(paths, bucket).rglob("*") if file.is_file())


def remove(paths: TwinPaths, bucket: str) -> None:
    """Remove the files that pods have written to a bucket, if any."""
    shutil.rmtree(folder(paths, bucket), ignore_errors=True)
