"""The training job of an adapter, with a tiny model or as a simulation.

Where the image pipeline is installed, the program takes real steps with a tiny model. Elsewhere,
the simulator checks the settings and the pictures as the program does, waits and writes an adapter
(rule agent.training).
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import rewrite
from twin.engines import image_pipeline as install
from twin.wire.kube import JsonObject

_COMMAND: Final = ["python3", "-m", "diffusion", "train", "--config"]
_FOLDERS: Final = ("adapter", "folder", "images", "work")
_TINY: Final = {"size": "32x32", "text_encoder_bits": 16, "text_tokens": 16}


def command(container: JsonObject, place: Place) -> tuple[list[str], dict[str, str], bool]:
    """Return command line, additional variables, and whether steps are real.

    Raises:
        ConfigError: The container has another command.
    """
    words: list[str] = container.get("command", [])
    if words[:5] != _COMMAND or len(words) != 6:
        raise ConfigError(f"no training run in the command: {' '.join(words)}")
    settings = json.loads(Path(rewrite(words[5], place.mounts)).read_text())
    for name in _FOLDERS:
        settings[name] = rewrite(str(settings.get(name, "")), place.mounts)
    is_real = install.DIFFUSION.is_installed
    if is_real:
        if Path(settings["folder"]).is_dir():  # a missing one is the program's to refuse
            settings["folder"] = str(install.tiny_model())
        settings |= {**_TINY, "platform": "cpu"}
    moved = place.kubeconfig.parent / "train.json"
    moved.write_text(json.dumps(settings))
    if not is_real:
        argv = [sys.executable, "-m", "simulator.diffusion.trainer", str(moved)]
        return argv, {"GKE_INFERENCE_SIM_SPEED": str(place.rules.speed)}, False
    python = str(install.DIFFUSION.python())
    variables = {
        "HOME": str(place.kubeconfig.parent),
        "JAX_COMPILATION_CACHE_DIR": str(install.DIFFUSION.folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PATH": os.environ["PATH"],
    }
    argv = [python, "-m", "diffusion", "train", "--config", str(moved)]
    return argv, install.environment(variables), True
