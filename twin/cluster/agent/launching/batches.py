"""The service and the workers of batches: the platform's program, with the twin's buckets."""

import json
import sys
from pathlib import Path
from typing import Final

from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs

_PATHS: Final = ("key_file", "scratch")
"""Settings whose values are folders or files of the container."""


def command(arguments: list[str], place: Place) -> list[str]:
    """Return the command line, with the paths in settings translated to this machine.

    Args:
        arguments: Arguments of the container, with paths on this machine.
        place: Place of the container.
    """
    role, file = arguments
    settings = json.loads(Path(file).read_text())
    for name in _PATHS:
        if settings.get(name):
            settings[name] = rewrite(settings[name], place.mounts)
    moved = place.kubeconfig.parent / "batch.json"
    moved.write_text(json.dumps(settings))
    return [sys.executable, "-W", "ignore", "-m", "workloads.batch", role, str(moved)]


def environment(root: Path | None) -> dict[str, str]:
    """Return the variables that point the Cloud Storage client to the twin's server."""
    if root is None:
        return {}
    return {"STORAGE_EMULATOR_HOST": gcs.url(TwinPaths(root))}
