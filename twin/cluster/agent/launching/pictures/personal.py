"""The workers of personalized images: the platform's program, with the twin's servers."""

import json
from pathlib import Path

from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.engines.stream_worker import personal_environment
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import clients

_FILES = ("key_file", "secret_file", "shared")
"""Settings whose values are files or folders of the container."""


def command(arguments: list[str], place: Place) -> list[str]:
    """Return the command line; install the program's packages if they are missing.

    The settings name files of this machine, and so do the training jobs that the worker creates:
    its mount of the shared folder is part of them.

    Args:
        arguments: Arguments of the container, with paths on this machine.
        place: Place of the container.

    Raises:
        ToolError: The packages cannot be installed.
    """
    python = personal_environment().install(lambda _: None) / "bin" / "python"
    role, file = arguments
    settings = json.loads(Path(file).read_text())
    for name in _FILES:
        if settings.get(name):
            settings[name] = rewrite(settings[name], place.mounts)
    settings["account"] = str(place.kubeconfig.parent / "serviceaccount")
    moved = place.kubeconfig.parent / "personal.json"
    moved.write_text(json.dumps(settings))
    return [str(python), "-W", "ignore", "-m", "twin.engines.callbacks", role, str(moved)]


def environment(place: Place) -> dict[str, str]:
    """Return the variables for the twin's servers and for the receivers of callbacks.

    Receivers are on this machine: their addresses are in the file of the twin, and their
    certificates are from the twin's authority.
    """
    if place.root is None:
        return {}
    paths = TwinPaths(place.root)
    return {
        **clients.environment(paths, place.caller),
        "GKE_INFERENCE_TWIN_RECEIVERS": str(paths.root / "receivers.json"),
    }
