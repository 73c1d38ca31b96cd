"""What each image of this project contains, as far as its Dockerfile and locks say."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from gke_inference.catalogue.versions import Build, Image, base_image, builds
from scripts.release.contents.record import Package, Registry
from scripts.terminal.console import CommandError
from twin.toolchain.gobuild import environment, find_go

GATEWAY: Final = Path("workloads", "gateway")
IMAGES: Final = Path("workloads", "images")
_PROGRAMS: Final = {"body_router": "./router", "callout": "./callout", "relay": "./relay"}
"""Go program of each image that has only one, as workloads/images/Dockerfile copies them."""
_GO_BASE: Final = "go"
_PIN: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


class GoModule(NamedTuple):
    """A module that is linked into a program."""

    path: str
    version: str
    folder: Path
    """Its sources in Go's cache."""


@dataclass(frozen=True)
class Contents:
    """What an image contains."""

    build: Build
    lock: Path | None
    """Lock of its Python packages, below the repository; None without any of its own."""
    program: str | None
    """Package of its Go program; None if it has none."""
    base: Image | None
    """Image whose files it has; None if it starts from nothing."""
    unknown: tuple[str, ...]
    """What no lock lists: a sentence each."""

    @property
    def parts(self) -> dict[str, Image]:
        """Images of which it has some files, by their entry in the lock of versions."""
        return {name: base_image(name) for name in self.build.parts}


def contents(root: Path) -> dict[str, Contents]:
    """Return what each image contains, by its name in a repository.

    Args:
        root: The repository, or the files of a commit.
    """
    return {build.target: _contents(root, name, build) for name, build in sorted(builds().items())}


def _contents(root: Path, name: str, build: Build) -> Contents:
    program = _PROGRAMS.get(name)
    lock = IMAGES / build.target / "requirements.lock"
    unknown: list[str] = []
    if program is None:
        unknown.append(f"Packages of {build.base.reference}.")
    else:
        unknown.append(f"Certificate authorities, copied from {build.base.reference}.")
    unknown += [f"Files copied from {base_image(each).reference}." for each in build.parts]
    return Contents(
        build,
        lock if (root / lock).is_file() else None,
        program,
        None if program else build.base,
        tuple(unknown),
    )


def locked_packages(lock: Path) -> list[Package]:
    """Return the packages of a lock of Python packages, in its order."""
    return [
        Package(Registry.PYPI, normal_name(name), version)
        for name, version in _PIN.findall(lock.read_text(encoding="utf-8"))
    ]


def normal_name(name: str) -> str:
    """Return a name as PyPI compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def linked_modules(gateway: Path, program: str) -> tuple[GoModule, ...]:
    """Return the modules whose packages a Go program links on linux/amd64, by path.

    Raises:
        CommandError: Go cannot list them, for example because a module cannot be downloaded.
    """
    command = [find_go(_quiet), "list", "-deps", "-json=Module,Standard", program]
    variables = {**environment(), "GOOS": "linux", "GOARCH": "amd64"}
    ran = subprocess.run(
        command, cwd=gateway, env=variables, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        last = (ran.stderr.strip() or "no message").splitlines()[-1]
        raise CommandError(f"go list {program}: {last}")
    found: dict[str, GoModule] = {}
    decoder, rest = json.JSONDecoder(), ran.stdout.strip()
    while rest:
        package, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
        module: Mapping[str, str] = package.get("Module", {})
        if module and not module.get("Main"):
            folder = Path(module["Dir"])
            found[module["Path"]] = GoModule(module["Path"], module["Version"], folder)
    return tuple(found[path] for path in sorted(found))


def go_version() -> str:
    """Return the release of Go that compiles the programs of images."""
    return base_image(_GO_BASE).tag.partition("-")[0]


def packages_of(root: Path, image: Contents) -> list[Package]:
    """Return the packages of an image that locks list: of Python, and modules of Go."""
    found = [] if image.lock is None else locked_packages(root / image.lock)
    if image.program is not None:
        found += [
            Package(Registry.GO, module.path, module.version)
            for module in linked_modules(root / GATEWAY, image.program)
        ]
        found.append(Package(Registry.GO, "std", go_version()))
    return found


def _quiet(module: str, done: int, total: int, doing: str) -> None:
    del module, done, total, doing
