"""The image server, run as a process on this machine instead of its container.

Queue, API, metrics, health and drain are real. The pipeline is simulated, except in the replica
that the twin's operator selects, which runs the real pipeline with a tiny model.
"""

import json
import os
import sys
from pathlib import Path

from twin.cluster.agent.launching import launcher, real_engine
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.place import Launch, Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.engines import image_pipeline as install
from twin.host.paths import REPOSITORY
from twin.wire.kube import JsonObject
from workloads.engine.diffusion import COMMAND

_PIPELINE = "simulator.diffusion.simulated:load"
_TINY_TOKENS = 16
_CHIPS = "--chips="
_OWN = ("--host", "--platform", "--pipeline", "--folder", "--workers", "--max-batch", _CHIPS)
_FURTHER = "--base-model="
_OF_THE_MODEL = ("--text-tokens", "--adapter", _FURTHER)


def arguments(words: list[str]) -> list[str]:
    """Return the arguments after `python3 -m diffusion serve` in a container.

    Raises:
        ConfigError: The container has another command.
    """
    if tuple(words[: len(COMMAND)]) != COMMAND:
        raise ConfigError(f"no image server in the command: {' '.join(words[: len(COMMAND)])}")
    return words[len(COMMAND) :]


def simulated(address: str) -> list[str]:
    """Return the command line of the server with the simulated pipeline.

    The launcher appends the arguments of the pod, in which it replaces the folders of models by
    those of their versions.
    """
    server = [sys.executable, "-m", "workloads.diffusion", "serve"]
    return [*server, f"--host={address}", f"--pipeline={_PIPELINE}", "--platform=cpu"]


def real(given: list[str], own: Path, address: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of the server with the real pipeline and a tiny model.

    Set by this machine: the weights, batches of one, and prompts of as many tokens as the tiny
    model knows. There is one process, or one for each model if models have chips of their own.
    Adapters of the real model do not fit and are omitted.

    Args:
        given: Arguments of the container.
        own: Folder that is deleted with the pod.
        address: Address of the pod.

    Raises:
        twin.toolchain.ToolError: The pipeline is not installed.
    """
    python = str(install.DIFFUSION.python())
    folder = install.tiny_model()
    kept = [word for word in given if not word.startswith((*_OWN, *_OF_THE_MODEL))]
    kept += [_tiny(word, folder) for word in given if word.startswith(_FURTHER)]
    has_own_chips = any(word.startswith(_CHIPS) for word in given)
    workers = 1 + sum(word.startswith(_FURTHER) for word in given) if has_own_chips else 1
    forced = [
        *([f"{_CHIPS}1"] if has_own_chips else []),
        *(f"--host={address}", "--platform=cpu", f"--folder={folder}"),
        *(f"--workers={workers}", "--max-batch=1", f"--text-tokens={_TINY_TOKENS}"),
    ]
    cache = install.DIFFUSION.folder / "programs"  # compiled programs serve every start
    variables = {
        "HOME": str(own),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PATH": os.environ["PATH"],
    }
    return [python, "-m", "diffusion", "serve", *kept, *forced], install.environment(variables)


def _tiny(word: str, folder: Path) -> str:
    """Return the flag of a further model with the tiny model in its place."""
    model: JsonObject = json.loads(word.removeprefix(_FURTHER))
    model.pop("text_tokens", None)
    if "chips" in model:
        model["chips"] = 1
    return _FURTHER + json.dumps({**model, "folder": str(folder)})


def launched(container: JsonObject, place: Place, base: dict[str, str]) -> Launch:
    """Return how the server runs: its own program behind the launcher, with another pipeline.

    Args:
        container: Container of the server.
        place: Place of the container.
        base: Variables of every program.

    Raises:
        ConfigError: The container has another command.
    """
    said = launcher.words(container, place.variables)
    if "--" not in said:
        raise ConfigError("no launcher in the command of the image server")
    behind = [rewrite(word, place.mounts) for word in said[said.index("--") + 1 :]]
    given = arguments(behind)
    address: str = place.pod["status"]["podIP"]
    is_real = place.root is not None and real_engine.is_chosen(place.root, place.pod, given)
    if is_real:
        argv, variables = real(given, place.kubeconfig.parent, address)
    else:
        argv = simulated(address)
        variables = {
            "GKE_INFERENCE_SIM_ACCELERATOR": place.node.accelerator,
            "GKE_INFERENCE_SIM_SPEED": str(place.rules.speed),
            "PYTHONPATH": str(REPOSITORY),
        }
    program = launcher.Program(
        argv,
        {**variables},
        is_whole=is_real,
        name=COMMAND[0],
        words=len(COMMAND) - 1,
        mounts=tuple(place.mounts),
    )
    return launcher.launch(Kind.IMAGES, container, place, said, base, program, is_real=is_real)
