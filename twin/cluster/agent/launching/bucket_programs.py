"""Programs that use the twin's buckets: batches, and the job that transfers weights."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Final

from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.host.paths import TwinPaths
from twin.providers.gcp.iam import endpoint
from twin.wire.kube import JsonObject

_PATHS: Final = ("key_file", "scratch")
"""Settings of batches whose values are folders or files of the container."""
_PROGRAM: Final = re.compile(r"exec python3 -m workloads\.transfer (?P<spec>\S+)$")
_NO_HUB: Final = "http://127.0.0.1:9"  # nothing listens there


def batch(arguments: list[str], place: Place) -> list[str]:
    """Return the command line of batches, with the paths in settings translated to this machine.

    Args:
        arguments: Arguments of the container, with paths on this machine.
        place: Place of the container.
    """
    role, file, *only = arguments
    settings = json.loads(Path(file).read_text())
    settings["account"] = str(place.kubeconfig.parent / "serviceaccount")
    for name in _PATHS:
        if settings.get(name):
            settings[name] = rewrite(settings[name], place.mounts)
    moved = place.kubeconfig.parent / "batch.json"
    moved.write_text(json.dumps(settings))
    return [sys.executable, "-W", "ignore", "-m", "workloads.batch", role, str(moved), *only]


def weights(container: JsonObject, place: Place) -> list[str]:
    """Return the command line of the job, with the paths in the input translated to this machine.

    The packages that the container installs first are those of this checkout.

    Raises:
        ConfigError: The container has another command.
    """
    words: list[str] = container.get("command", [])
    found = _PROGRAM.search(words[-1]) if words[:2] == ["sh", "-c"] else None
    if found is None:
        raise ConfigError(f"no transfer of weights in the command: {shlex.join(words)}")
    spec = json.loads(Path(rewrite(found["spec"], place.mounts)).read_text())
    if spec["token_secret"] is not None:
        raise ConfigError("the twin does not read the hub's token from Secret Manager")
    spec["target"] = rewrite(spec["target"], place.mounts)
    moved = place.kubeconfig.parent / "weights.json"
    moved.write_text(json.dumps(spec))
    # -P: the program of the container, and not the one in the current folder
    return [sys.executable, "-P", "-W", "ignore", "-m", "workloads.transfer", str(moved)]


def weights_environment(place: Place) -> dict[str, str]:
    """Return the container's variables with folders of this machine, and the twin's buckets."""
    moved = {
        name: ":".join(rewrite(part, place.mounts) for part in value.split(":"))
        for name, value in place.variables.items()
        if not value.startswith(("http://", "https://"))
    }
    hub = {"HF_ENDPOINT": os.environ.get("HF_ENDPOINT", _NO_HUB)}
    return {**moved, **hub, **buckets(place)}


def buckets(place: Place) -> dict[str, str]:
    """Return the variables that point the Cloud Storage client to the twin's server."""
    if place.root is None:
        return {}
    return {"STORAGE_EMULATOR_HOST": endpoint.url(TwinPaths(place.root), place.caller)}
