"""Jobs that optimize and evaluate models: the platform's program, with the twin's buckets.

Where LLM Compressor and PEFT are not installed, the simulator runs the program without their work
(rule agent.optimization).
"""

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from twin.cluster.agent.launching.bucket_programs import buckets
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.engines import optimization
from twin.wire.kube import JsonObject

_PATHS: Final = ("key_file", "work")
"""Settings whose values are folders or files of the container."""


def command(kind: Kind, arguments: list[str], place: Place) -> tuple[list[str], bool]:
    """Return the command line with paths on this machine, and whether the work is real.

    The packages of evaluations are installed if they are missing; those of the other jobs are not.
    What the program would refuse is left to it.

    Args:
        kind: Kind of the container.
        arguments: Arguments of the container, with paths on this machine.
        place: Place of the container.

    Raises:
        twin.toolchain.ToolError: The packages of evaluations cannot be installed.
    """
    given = [*arguments[:1], *(_moved(file, place) for file in arguments[1:2]), *arguments[2:]]
    if kind is Kind.EVALUATION:
        optimization.EVALUATION.install(lambda _: None)
        python, module = optimization.EVALUATION.python(), "workloads.optimization"
    elif optimization.OPTIMIZATION.is_installed:
        python, module = optimization.OPTIMIZATION.python(), "workloads.optimization"
    else:
        python, module = sys.executable, "simulator.optimization"
    argv = [str(python), "-W", "ignore", "-m", module, *given]
    return argv, module == "workloads.optimization"


def _moved(file: str, place: Place) -> str:
    """Return a copy of a file of settings with paths on this machine."""
    try:
        settings: Any = json.loads(Path(file).read_text())
    except (OSError, ValueError):
        return file
    if not isinstance(settings, dict):
        return file
    moving = cast("JsonObject", settings)
    for name in _PATHS:
        if isinstance(moving.get(name), str):
            moving[name] = rewrite(moving[name], place.mounts)
    moved = place.kubeconfig.parent / "optimization.json"
    moved.write_text(json.dumps(moving))
    return str(moved)


def environment(place: Place) -> dict[str, str]:
    """Return the variables of a job: the twin's buckets, and no hub."""
    moved = {name: rewrite(value, place.mounts) for name, value in place.variables.items()}
    return {**optimization.environment(moved), **buckets(place)}
