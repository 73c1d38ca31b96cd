"""Weights in a folder, as a tool that pushes them leaves them."""

from pathlib import Path

from twin.engines.real.tiny_model import write_model
from workloads.engine.weights_manifest import (
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    FileEntry,
    Manifest,
)

VERSION = "v1"


def put_weights(model: Path) -> None:
    """Write a version of a tiny model, and make it current.

    Args:
        model: Folder of the model in a bucket, which a mount shows: only sizes are looked at.
    """
    folder = write_model(model / VERSION)
    entries = tuple(
        FileEntry(file.name, file.stat().st_size, "AAAAAA==", "0" * 64)
        for file in sorted(folder.iterdir())
        if file.name != MANIFEST_NAME
    )
    manifest = Manifest(model.name, VERSION, "2026-11-22T00:00:00Z", entries)
    (folder / MANIFEST_NAME).write_text(manifest.dump())
    (model / CURRENT_NAME).write_text(Current(VERSION).dump())
