"""The platform's launcher on this machine, in a root folder created for its pod.

The root folder contains what the container would: the devices of the node, the files of the pod's
volumes, and a program `vllm`, which is the simulated or the real engine.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.environment import expand
from twin.cluster.agent.launching.google_access import NOBODY
from twin.cluster.agent.launching.hardware import NodeHardware, made_for
from twin.cluster.agent.launching.place import Launch, Place
from twin.cluster.agent.launching.volumes import Mount, moves
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs, secret_manager
from twin.providers.gcp.iam import endpoint
from twin.wire.kube import JsonObject

_MODULE = ["-m", "engine"]
_DEVICES = {"gpu": "dev/nvidia{}", "tpu": "dev/vfio/{}"}
# The kernel ends it with its launcher: a container's processes end together.
_PROGRAM = """\
import ctypes, json, os, re, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
argv, environment, is_whole, words, moves = json.loads({settings!r})
def moved(word):
    for pattern, folder in moves:
        word, found = re.subn(pattern, lambda _: folder, word)
        if found:
            break
    return word
changed = {{**os.environ, **environment}}
kept = {{name: value for name, value in changed.items() if value is not None}}
given = [] if is_whole else [moved(word) for word in sys.argv[1 + words :]]
os.execve(argv[0], argv + given, kept)
"""


@dataclass(frozen=True)
class Program:
    """Program that replaces the engine's program."""

    argv: list[str]
    environment: Mapping[str, str | None]
    """Additional variables; None removes a variable."""
    name: str
    """Command that starts it in its image."""
    words: int
    """Further words of the command, before its arguments."""
    is_whole: bool = False
    """Whether `argv` already includes the arguments."""
    mounts: tuple[Mount, ...] = ()
    """Mounts whose paths are replaced in the arguments, for a program outside the root folder."""


def words(container: JsonObject, variables: dict[str, str]) -> list[str]:
    """Return the launcher's own words in a container: options, `--`, the engine's command.

    Returns nothing if the container starts no launcher.
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


def launch(
    kind: Kind,
    container: JsonObject,
    place: Place,
    said: list[str],
    base: Mapping[str, str],
    program: Program,
    *,
    is_real: bool,
) -> Launch:
    """Return the launch of a container whose launcher starts a program of the twin.

    Args:
        kind: Kind of the container.
        container: The container.
        place: Place of the container; the folder of its `/` is created beside its kubeconfig.
        said: Words of the launcher in the container.
        base: Variables of every container.
        program: Program behind the engine's command.
        is_real: Whether the program is the engine's own.
    """
    asked = made_for(container)
    root = place.kubeconfig.parent / "roots" / container["name"]
    link(root, place.mounts)
    files = devices(root, place.node, asked)
    if place.node.has_driver:
        put_devices(files)
    _write_program(root / "usr/local/bin" / program.name, program)
    return Launch(
        kind,
        command(said, root, place.rules.speed),
        environment(base, root, place),
        is_real=is_real,
        devices=files,
    )


def devices(folder: Path, node: NodeHardware, kind: str) -> tuple[Path, ...]:
    """Return the files that represent a node's devices in the root folder of a container.

    Args:
        folder: Root folder of the container.
        node: Node of the pod.
        kind: Hardware of the container, used on a node without accelerators.
    """
    here = kind if node.kind == "cpu" else node.kind
    if here not in _DEVICES:
        return ()
    return tuple(folder / _DEVICES[here].format(number) for number in range(node.chips))


def put_devices(files: Iterable[Path]) -> None:
    """Create the files that represent devices."""
    for device in files:
        device.parent.mkdir(parents=True, exist_ok=True)
        device.touch()


def link(folder: Path, mounts: list[Mount]) -> None:
    """Add a container's mounts, the deepest first, to the folder that represents its `/`."""
    for mount in reversed(mounts):
        place = folder / mount.path.lstrip("/")
        if not place.exists() and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(mount.folder)


def _write_program(file: Path, program: Program) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    at = moves(list(program.mounts))
    settings = json.dumps(
        [program.argv, dict(program.environment), program.is_whole, program.words, at]
    )
    Path(f"{file}.py").write_text(_PROGRAM.format(settings=settings))
    script = f'exec {shlex.quote(sys.executable)} -IS {shlex.quote(f"{file}.py")} "$@"'
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def command(said: list[str], root: Path, speed: float = 1.0) -> list[str]:
    """Return the launcher's command line on this machine.

    Args:
        said: Words of the launcher in the container.
        root: Root folder of the container.
        speed: Speed of the twin; waits for load balancers are divided by it.
    """
    at = said.index("--")
    options = [
        f"--spec={root}{word.partition('=')[2]}" if word.startswith("--spec=") else word
        for word in said[:at]
    ]
    options += _settle(options, speed)
    return [sys.executable, *_MODULE, *options, *said[at:]]


def _settle(options: list[str], speed: float) -> list[str]:
    """Return the option that shortens a launcher's wait; none if its spec cannot be read."""
    specs = [word.partition("=")[2] for word in options if word.startswith("--spec=")]
    try:
        seconds = float(json.loads(Path(specs[0]).read_text())["settle_seconds"])
    except (OSError, ValueError, LookupError):
        return []
    return [f"--settle-seconds={seconds / speed:g}"] if seconds else []


def environment(base: Mapping[str, str], root: Path, place: Place) -> dict[str, str]:
    """Return a launcher's environment.

    Args:
        base: Variables of every container.
        root: Root folder of the container.
        place: Place of the container, with the twin whose object storage it reads.
    """
    storage = f"http://{NOBODY}"
    if place.root is not None and gcs.runs(paths := TwinPaths(place.root)):
        storage = endpoint.url(paths, place.caller)
    secrets: dict[str, str] = {}
    if place.root is not None and _has_secrets(root):
        url = secret_manager.url(TwinPaths(place.root)) + place.caller.path
        secrets["SECRET_MANAGER_ENDPOINT"] = url
    return {
        **base,
        **secrets,
        "GCE_METADATA_HOST": NOBODY,  # no pod asks it for more than an identity
        "GKE_INFERENCE_ROOT": str(root),
        "PATH": f"{root / 'usr/local/bin'}{os.pathsep}{base['PATH']}",
        "PYTHONPATH": f"{root}/opt/gke-inference",
        "STORAGE_EMULATOR_HOST": storage,
    }


def _has_secrets(root: Path) -> bool:
    """Return whether the spec in a root folder names secrets; false if it cannot be read."""
    try:
        spec = json.loads((root / "opt/gke-inference/engine/spec.json").read_text())
        return any(each["secrets"] for each in spec["serving"].values())
    except (OSError, ValueError, LookupError):
        return False
