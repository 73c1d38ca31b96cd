"""The version of the weights that a run uses, from its first process to its last."""

import json
from dataclasses import replace
from pathlib import Path

from engine import weights
from engine.weights_manifest import CURRENT_NAME, MANIFEST_NAME

from ...training import Training

RECORD = "version.json"
"""File of the work folder with the version that a run has begun with."""


class Unfit(ValueError):
    """A folder has no complete weights; the message has field, rule and value."""


def fixed(settings: Training) -> tuple[Training, str | None]:
    """Return the settings with the folder of a version, and that version; None: it has none.

    In a folder of versions, the pointer names the version, as for the server. A run that resumes
    keeps its version while that exists, even if the pointer has moved since.

    Raises:
        ValueError: The folder has no complete weights.
    """
    folder = Path(settings.folder).absolute()
    if (folder / MANIFEST_NAME).exists():
        return _of(settings, folder, False)
    if not (folder / CURRENT_NAME).exists():
        if not (folder / "transformer").is_dir():
            rule = f"must be the folder of a version, or have {CURRENT_NAME}"
            raise Unfit(f"folder: {rule}, got {folder}")
        return settings, None
    run, file = settings.digest(), Path(settings.work) / RECORD
    version = _kept(file, run)
    try:
        if version is not None:
            return _of(settings, folder / version, False)
    except Unfit:
        pass  # somebody deleted it: the run begins again with the current version
    found = _of(settings, folder, True)
    partial = file.with_name(f".{RECORD}")
    partial.write_text(json.dumps({"run": run, "version": found[1]}))
    partial.replace(file)
    return found


def _of(settings: Training, folder: Path, has_versions: bool) -> tuple[Training, str]:
    try:
        found = weights.whole(weights.Folder(str(folder)), has_versions, None)
    except weights.MissingError as error:
        raise Unfit(f"folder: must have complete weights, but there is no {error}") from None
    return replace(settings, folder=found.source), found.manifest.version


def _kept(file: Path, run: str) -> str | None:
    """Return the version that a run has begun with, if the record is of this run."""
    try:
        record = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return str(record["version"]) if record.get("run") == run else None
