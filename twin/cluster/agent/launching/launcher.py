"""The platform's launcher on this machine: its own program, in a root folder made for its pod.

It finds what it would find in its container: the devices of the node, the files of the pod's
volumes, and a program `vllm`, behind which is the simulated or the real engine.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twin.cluster.agent.launching.environment import expand
from twin.cluster.agent.launching.hardware import NodeHardware
from twin.cluster.agent.launching.volumes import Mount
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.wire.kube import JsonObject

_MODULE = ["-m", "engine"]
_DEVICES = {"gpu": "dev/nvidia{}", "tpu": "dev/vfio/{}"}
# The kernel ends it with its launcher: a container's processes end together.
_PROGRAM = """\
import ctypes, json, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
argv, environment, is_whole, words = json.loads({settings!r})
changed = {{**os.environ, **environment}}
kept = {{name: value for name, value in changed.items() if value is not None}}
os.execve(argv[0], argv if is_whole else argv + sys.argv[1 + words :], kept)
"""


@dataclass(frozen=True)
class Program:
    """What stands for an engine's program."""

    argv: list[str]
    environment: Mapping[str, str | None]
    """Beside the launcher's; None takes a variable away."""
    is_whole: bool = False
    """Whether `argv` has the arguments already."""
    name: str = "vllm"
    """The word that starts it in its image."""
    words: int = 1
    """Further words that start it, ahead of its arguments."""


def words(container: JsonObject, variables: dict[str, str]) -> list[str]:
    """Return the launcher's own words in a container: options, `--`, the engine's command.

    Nothing where the container starts no launcher.
    """
    given = [*container.get("command", []), *container.get("args", [])]
    whole = [expand(word, variables) for word in given]
    for at, word in enumerate(whole):
        if whole[at : at + 2] == _MODULE:
            return whole[at + 2 :]
        line = next((line for line in word.splitlines() if " -m engine " in line), None)
        if line is not None:
            inner = shlex.split(line)
            behind = whole[at + 2 :]  # the first word behind a script is its name
            out = inner[inner.index("engine") + 1 :]
            return [each for one in out for each in (behind if one == "$@" else [one])]
    return []


def make_root(
    folder: Path, mounts: list[Mount], node: NodeHardware, kind: str, program: Program
) -> Path:
    """Make the folder that stands for a container's `/`, and return it.

    Args:
        folder: to make it in; what is there stays.
        mounts: the container's, the deepest first.
        node: where it runs.
        kind: hardware that the container is made for, which a node without any has, too.
        program: behind `vllm`.
    """
    link(folder, mounts)
    here = kind if node.kind == "cpu" else node.kind
    for number in range(node.chips):
        device = folder / _DEVICES[here].format(number)
        device.parent.mkdir(parents=True, exist_ok=True)
        device.touch()
    _write_program(folder / "usr/local/bin" / program.name, program)
    return folder


def link(folder: Path, mounts: list[Mount]) -> None:
    """Put a container's mounts, the deepest first, into the folder that stands for its `/`."""
    for mount in reversed(mounts):
        place = folder / mount.path.lstrip("/")
        if not place.exists() and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(mount.folder)


def _write_program(file: Path, program: Program) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    settings = json.dumps(
        [program.argv, dict(program.environment), program.is_whole, program.words]
    )
    Path(f"{file}.py").write_text(_PROGRAM.format(settings=settings))
    script = f'exec {shlex.quote(sys.executable)} -IS {shlex.quote(f"{file}.py")} "$@"'
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def command(said: list[str], root: Path, speed: float = 1.0) -> list[str]:
    """Return the launcher's command line on this machine.

    Args:
        said: its words in the container.
        root: of the container.
        speed: of the twin; what the launcher waits for load balancers is as much shorter.
    """
    at = said.index("--")
    options = [
        f"--spec={root}{word.partition('=')[2]}" if word.startswith("--spec=") else word
        for word in said[:at]
    ]
    options += _settle(options, speed)
    return [sys.executable, *_MODULE, *options, *said[at:]]


def _settle(options: list[str], speed: float) -> list[str]:
    """Return the option that shortens a launcher's wait; none where its spec has none to read."""
    specs = [word.partition("=")[2] for word in options if word.startswith("--spec=")]
    try:
        seconds = float(json.loads(Path(specs[0]).read_text())["settle_seconds"])
    except (OSError, ValueError, LookupError):
        return []
    return [f"--settle-seconds={seconds / speed:g}"] if seconds else []


def environment(base: Mapping[str, str], root: Path, twin: Path | None = None) -> dict[str, str]:
    """Return a launcher's environment.

    Args:
        base: what every container has.
        root: of the container.
        twin: folder of the twin, whose object storage it reads.
    """
    port = None if twin is None else gcs.port_of(TwinPaths(twin))
    return {
        **base,
        "GCE_METADATA_HOST": "127.0.0.1:1",  # nobody: no pod asks it for more than an identity
        "GKE_INFERENCE_ROOT": str(root),
        "PATH": f"{root / 'usr/local/bin'}{os.pathsep}{base['PATH']}",
        "PYTHONPATH": f"{root}/opt/gke-inference",
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{1 if port is None else port}",
    }
