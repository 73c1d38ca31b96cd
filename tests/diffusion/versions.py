"""Versions of the tiny model, as `models push` writes them."""

import shutil
from pathlib import Path

from workloads.engine.weights_manifest import (
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    FileEntry,
    Manifest,
)


def push(models: Path, tiny: Path, version: str) -> None:
    """Write a version of the tiny model, and point to it."""
    folder = models / version
    shutil.copytree(tiny, folder, ignore=shutil.ignore_patterns("adapters", "programs"))
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    entries = [
        FileEntry(name, (folder / name).stat().st_size, "AAAAAA==", "0" * 64) for name in files
    ]
    made = Manifest("flux", version, "2026-11-24T00:00:00Z", tuple(entries))
    (folder / MANIFEST_NAME).write_text(made.dump())
    (models / CURRENT_NAME).write_text(Current(version).dump())
