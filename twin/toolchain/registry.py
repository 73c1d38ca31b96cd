"""The programs of a twin, as listed in `twin/tools/modules.yaml`.

A tool module is downloaded or built as a whole. Several modules can share a folder of Go sources,
so that a command builds only the programs that it needs.
"""

import functools
import hashlib
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MODULES = Path(__file__).resolve().parent.parent / "tools"
_RECIPE = "1"  # part of every key: raise it when the way of building changes
_NOT_BUILT_FROM = ("releases", "release_number")
"""Module fields that do not affect the build from source."""


class ToolError(Exception):
    """A tool is missing and cannot be obtained; the message suggests a solution."""


@dataclass(frozen=True)
class Module:
    """A tool module: its programs, and the folders copied from Go sources."""

    name: str
    spec: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Return the folder of the Go sources."""
        return MODULES / self.spec.get("folder", self.name)

    @property
    def folders(self) -> list[Path]:
        """Return every folder that it is built from: its own, and those of packages beside it."""
        return [self.folder, *(MODULES / name for name in self.spec.get("with", ()))]

    @property
    def binaries(self) -> dict[str, str]:
        """Return the Go package of each program."""
        return self.spec.get("binaries", {})

    @property
    def links(self) -> dict[str, list[str]]:
        """Return the aliases of a built program."""
        return self.spec.get("links", {})

    @property
    def share(self) -> dict[str, dict[str, str]]:
        """Return the Go module and the path behind each folder of `share()`."""
        return self.spec.get("share", {})

    @property
    def releases(self) -> list[dict[str, Any]]:
        """Return the sources of official binaries, in the order in which they are tried."""
        return self.spec.get("releases", [])

    @property
    def is_optional(self) -> bool:
        """Return whether only the command that needs it obtains it."""
        return self.spec.get("optional", False)

    @property
    def programs(self) -> list[str]:
        """Return every name that `tool` finds in this module."""
        return [*self.binaries, *(link for links in self.links.values() for link in links)]

    @property
    def wanted(self) -> list[str]:
        """Return the names that a release must provide, with links in place of their program."""
        return [name for binary in self.binaries for name in self.links.get(binary, [binary])]

    @functools.cached_property
    def version(self) -> str:
        """Return the version of the Go module that the tool is named after, from go.mod."""
        named_after = self.spec.get("version")
        return "v0.0.0" if named_after is None else self.version_of(named_after)

    def version_of(self, path: str) -> str:
        """Return the version of a Go module that go.mod requires.

        Raises:
            ToolError: go.mod does not require it.
        """
        pattern = rf"^\s*(?:require )?{re.escape(path)} (v\S+)"
        match = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if match is None:
            raise ToolError(f"{self.folder}/go.mod does not require {path}")
        return match.group(1)

    @functools.cached_property
    def key(self) -> str:
        """Return the folder's name in the cache: name, version and a hash of the sources."""
        digest = hashlib.sha256()
        for folder in self.folders:
            for file in sorted(file for file in folder.rglob("*") if file.is_file()):
                digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
                digest.update(file.read_bytes() + b"\0")
        built_from = {key: self.spec[key] for key in self.spec if key not in _NOT_BUILT_FROM}
        digest.update(repr((_RECIPE, built_from, platform.machine())).encode())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"


@functools.cache
def recipe() -> dict[str, Any]:
    """Return the content of modules.yaml."""
    return yaml.safe_load((MODULES / "modules.yaml").read_text())


@functools.cache
def modules() -> dict[str, Module]:
    """Return every tool module by name."""
    return {name: Module(name, spec) for name, spec in recipe()["modules"].items()}


def usual_modules() -> dict[str, Module]:
    """Return the modules that `gke-inference tools` obtains unless some are named."""
    return {name: module for name, module in modules().items() if not module.is_optional}


def module_of(program: str) -> Module:
    """Return the module that has a program.

    Raises:
        ToolError: no module has it.
    """
    for module in modules().values():
        if program in module.programs:
            return module
    raise ToolError(f"the twin has no tool named {program}")


def needed_by(*purposes: str) -> list[Module]:
    """Return the modules that commands or parts of a stack need, each once.

    Args:
        purposes: keys of `needs` in modules.yaml, such as `preview`.

    Raises:
        ToolError: modules.yaml has no such purpose.
    """
    needs: dict[str, list[str]] = recipe()["needs"]
    unknown = [purpose for purpose in purposes if purpose not in needs]
    if unknown:
        raise ToolError(f"modules.yaml lists no tools for {', '.join(unknown)}")
    return named(name for purpose in purposes for name in needs[purpose])


def named(names: Iterable[str]) -> list[Module]:
    """Return modules by name, each once, in the order given.

    Raises:
        ToolError: a module does not exist.
    """
    unique = list(dict.fromkeys(names))
    for name in unique:
        if name not in modules():
            raise ToolError(f"the twin has no tool module named {name}")
    return [modules()[name] for name in unique]
