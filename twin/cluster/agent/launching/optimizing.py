"""Jobs that optimize and evaluate models: the platform's program, with the twin's buckets."""

import json
from pathlib import Path
from typing import Final

from twin.cluster.agent.launching.bucket_programs import buckets
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.engines import optimization

_PATHS: Final = ("key_file", "work")
"""Settings whose values are folders or files of the container."""


def command(kind: Kind, arguments: list[str], place: Place) -> list[str]:
    """Return the command line, with the paths in settings translated to this machine.

    The packages of evaluations are installed if they are missing; those of the other jobs are not.

    Args:
        kind: Kind of the container.
        arguments: Arguments of the container, with paths on this machine.
        place: Place of the container.

    Raises:
        twin.toolchain.ToolError: The packages are not there.
    """
    if kind is Kind.EVALUATION:
        optimization.EVALUATION.install(lambda _: None)
        python = optimization.EVALUATION.python()
    else:
        python = optimization.OPTIMIZATION.python()
    role, file = arguments
    settings = json.loads(Path(file).read_text())
    for name in _PATHS:
        if settings.get(name):
            settings[name] = rewrite(settings[name], place.mounts)
    moved = place.kubeconfig.parent / "optimization.json"
    moved.write_text(json.dumps(settings))
    return [str(python), "-W", "ignore", "-m", "workloads.optimization", role, str(moved)]


def environment(place: Place) -> dict[str, str]:
    """Return the variables of a job: the twin's buckets, and no hub."""
    moved = {name: rewrite(value, place.mounts) for name, value in place.variables.items()}
    return {**optimization.environment(moved), **buckets(place)}
