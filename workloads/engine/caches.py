"""Where compiled programs outlive a container, and whether a start found them."""

import os
from itertools import islice
from pathlib import Path

from . import hardware
from .spec import Serving

_MOST = 10_000  # a folder of a bucket is listed over the network


def environment(serving: Serving) -> "dict[str, str]":
    """Return the variables that make an engine keep what it compiles; the pod's own come first."""
    folder = serving.cache_folder
    if folder is None:
        return {}
    if serving.kind == "tpu":
        # tpu-inference reads the first, JAX the others; small programs are kept, too.
        names = {
            "VLLM_XLA_CACHE_PATH": folder,
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
    elif serving.engine == "vllm":
        names = {"VLLM_CACHE_ROOT": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
    else:
        names = {
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
    return {name: value for name, value in names.items() if name not in os.environ}


def entries(serving: Serving) -> "int | None":
    """Return how many programs are kept, at most 10,000; None where nothing is."""
    if serving.cache_folder is None:
        return None
    folder = hardware.root() / serving.cache_folder.lstrip("/")
    return sum(1 for _ in islice(_files(folder), _MOST))


def _files(folder: Path) -> "list[str]":
    try:
        return os.listdir(folder)
    except OSError:
        return []
