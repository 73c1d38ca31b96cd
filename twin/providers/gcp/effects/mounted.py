"""What pods wrote into buckets that they mount: folders of the twin, beside the object storage."""

import shutil
from pathlib import Path

from twin.host.paths import TwinPaths


def folder(paths: TwinPaths, bucket: str) -> Path:
    """Return the folder that a mounted bucket is."""
    return paths.volumes / "buckets" / bucket


def count(paths: TwinPaths, bucket: str) -> int:
    """Return how many objects pods have written into a bucket."""
    return sum(1 for file in folder(paths, bucket).rglob("*") if file.is_file())


def remove(paths: TwinPaths, bucket: str) -> None:
    """Remove what pods have written into a bucket; a bucket without any is no error."""
    shutil.rmtree(folder(paths, bucket), ignore_errors=True)
