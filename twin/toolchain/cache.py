"""The user's cache of tools, shared by all checkouts, with one folder per module and version.

A folder is complete or absent: it is prepared elsewhere and moved into place atomically. Its file
`.complete` records the source of the tool.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twin.host.paths import file_above
from twin.toolchain.registry import Module, ToolError

CACHE_VARIABLE = "GKE_INFERENCE_TOOLS"
_COMPLETE = ".complete"
_LEAST_GIB = 0.25
"""Room for the largest tool twice, as it is built and in its place: Kubernetes has 0.12 GiB."""


def cache_root() -> Path:
    """Return the folder of tools: `GKE_INFERENCE_TOOLS`, or one in the user's cache."""
    configured = os.environ.get(CACHE_VARIABLE)
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gke-inference" / "tools"


def check_cache() -> None:
    """Reject a cache that programs with other working directories would not find, or a file.

    Raises:
        ToolError: the folder cannot be used; the message names variable, rule and value.
    """
    root = cache_root()
    if not root.is_absolute():
        raise ToolError(f"{CACHE_VARIABLE}: must be an absolute path, got '{root}'")
    file = file_above(root)
    if file is not None:
        raise ToolError(f"{CACHE_VARIABLE}: must be a folder, got '{root}': {file} is a file")


def folder_of(module: Module) -> Path:
    """Return the folder of a module in the cache, whether or not it exists."""
    return cache_root() / module.key


def is_cached(module: Module) -> bool:
    """Return whether a module is in the cache."""
    return (folder_of(module) / _COMPLETE).exists()


def origin_of(module: Module) -> dict[str, Any]:
    """Return the origin of a cached module: `from` (source or release) and details."""
    try:
        return json.loads((folder_of(module) / _COMPLETE).read_text())
    except (FileNotFoundError, ValueError):
        return {}


@contextmanager
def locked(name: str) -> Generator[None]:
    """Hold a lock of the cache, so that only one process prepares the same item."""
    with (_made_root() / f".lock-{name}").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_locked(name: str) -> bool:
    """Return whether another process holds a lock of the cache."""
    with (_made_root() / f".lock-{name}").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _made_root() -> Path:
    """Return the folder of tools, created if needed.

    Raises:
        ToolError: it cannot be created.
    """
    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if os.environ.get(CACHE_VARIABLE):
            rule = "must be a folder that can be created"
            message = f"{CACHE_VARIABLE}: {rule}, got '{root}': {error.strerror}"
        else:
            message = (
                f"the folder of tools {root} cannot be created: {error.strerror}."
                f" Set {CACHE_VARIABLE} to a folder that you can write to"
            )
        raise ToolError(message) from None
    return root


def check_room() -> None:
    """Check that the disk of the cache has room for any tool, before one is built or downloaded.

    Raises:
        ToolError: it has not, or the folder cannot be created.
    """
    root = _made_root()
    free = shutil.disk_usage(root).free / 2**30
    if free < _LEAST_GIB:
        raise ToolError(
            f"the folder of tools {root} must have {_LEAST_GIB} GiB free, got {free:.2f}. Free"
            f" space, or set {CACHE_VARIABLE} to a folder on a larger disk"
        )


def store(module: Module, prepare: Callable[[Path], dict[str, Any]]) -> None:
    """Add a module to the cache atomically; an interrupted preparation leaves nothing.

    Args:
        module: module to add.
        prepare: fills `bin` and `share` of a folder and returns the origin.
    """
    partial = cache_root() / f".{module.key}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "bin").mkdir(parents=True)
    try:
        origin = prepare(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    (partial / _COMPLETE).write_text(json.dumps(origin, indent=1) + "\n")
    final = folder_of(module)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
