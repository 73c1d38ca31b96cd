"""Weights of jobs: a version from the bucket to a folder, and a folder to a new version."""

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from workloads.engine.weights_manifest import Manifest, split, version_of
from workloads.transfer.errors import Refused
from workloads.transfer.pull import pull
from workloads.transfer.push import push
from workloads.transfer.source import hash_files, scan
from workloads.transfer.store import Store
from workloads.transfer.versions import Home, now, read_current, read_manifest, set_current
from workloads.transfer.work import Crew, Progress

WORKERS: Final = 8
RECORD: Final = "gke_inference_optimization.json"
"""File of a result that records what it was made of."""


def version_in(store: Store, bucket: str, weights: str) -> str:
    """Return weights with the version that a server reads: FOLDER@VERSION.

    Weights without versions stay as they are.

    Raises:
        TransferError: The bucket cannot be read.
    """
    folder, version = split(weights)
    version = version or read_current(store, Home(bucket, folder))
    return folder if version is None else f"{folder}@{version}"


def get(store: Store, bucket: str, weights: str, folder: Path, progress: Progress) -> str:
    """Download a model and return its name with the version.

    Raises:
        Refused: The bucket has no complete version of it.
        TransferError: The bucket cannot be read.
    """
    name = version_in(store, bucket, weights)
    path, version = split(name)
    home = Home(bucket, path)
    manifest = None if version is None else read_manifest(store, home, version)
    if manifest is None:
        raise Refused(f"model: must be complete in {home.uri}, got no manifest")
    pull(store, home, manifest, folder, Crew(WORKERS), progress)
    return name


def put(
    store: Store, home: Home, folder: Path, record: Mapping[str, Any], progress: Progress
) -> str:
    """Upload a result and return its version, which is the current one if there was none.

    Args:
        store: Cloud Storage.
        home: Folder for the result.
        folder: Files of the result.
        record: What the result was made of, which becomes a file of it.
        progress: Takes the bytes that arrive.

    Raises:
        TransferError: The bucket cannot be written.
    """
    (folder / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    files, crew = scan(folder, []), Crew(WORKERS)
    entries = tuple(hash_files(files, crew, progress))
    manifest = Manifest(home.folder, version_of(entries), now(), entries)
    push(store, [home], files, manifest, crew, progress)
    if read_current(store, home) is None:
        set_current(store, home, manifest.version)
    return manifest.version


def releases(*packages: str) -> dict[str, str]:
    """Return the releases of packages, for the record of a result."""
    return {name: importlib.metadata.version(name) for name in packages}


def lines_of(store: Store, bucket: str, name: str) -> list[str]:
    """Return the lines of an object with data.

    Raises:
        Refused: The object does not exist.
        TransferError: The bucket cannot be read.
    """
    text = store.read(bucket, name)
    if text is None:
        raise Refused(f"data: must be an object of the bucket, got gs://{bucket}/{name}")
    return text.splitlines()
