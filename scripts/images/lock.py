"""The hashed package locks of own images, and whether they match their sources."""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gke_inference.catalogue.versions import Build, builds
from twin.host.paths import WORKLOADS

PYTHON = "3.12"
"""Python of `bases.python`; a test compares them."""
PLATFORM = "x86_64-manylinux_2_31"
"""libtpu has wheels from this platform on, and Debian bookworm (glibc 2.36) takes it."""

_MARK = "# made from: "


class LockError(Exception):
    """A lock that does not fit, or cannot be resolved; one line."""


@dataclass(frozen=True)
class PackageLock:
    """Requirements of one image and their resolution."""

    folder: Path
    is_addition: bool = False
    """Whether the base has the packages that the chosen ones need: only the chosen are locked."""

    @property
    def wanted(self) -> Path:
        """File with the chosen packages."""
        return self.folder / "requirements.in"

    @property
    def locked(self) -> Path:
        """File with all packages, each at one version with its hashes."""
        return self.folder / "requirements.lock"

    @property
    def overrides(self) -> list[Path]:
        """File with requirements that replace those of packages; empty if there is none."""
        file = self.folder / "overrides.txt"
        return [file] if file.exists() else []

    def sources(self) -> list[Path]:
        """Return the files with requirements: the folder's own, and those it refers to."""
        text = self.wanted.read_text()
        others = [line.split()[1] for line in text.splitlines() if line.startswith("-r ")]
        return [
            self.wanted,
            *self.overrides,
            *((self.folder / other).resolve() for other in others),
        ]

    def mark(self) -> str:
        """Return the line that records the sources of the lock."""
        digest = hashlib.sha256()
        for file in self.sources():
            digest.update(file.read_bytes())
        digest.update(f"{PYTHON} {PLATFORM}".encode())
        return f"{_MARK}{digest.hexdigest()} for Python {PYTHON} on {PLATFORM}"

    def is_current(self) -> bool:
        """Return whether the lock fits the current requirements, Python and platform."""
        return self.locked.exists() and self.locked.read_text().startswith(self.mark() + "\n")

    def resolve(self, *, upgrade: bool = False) -> str:
        """Return the newly resolved lock; compatible versions are kept.

        Raises:
            LockError: The index does not have a requirement.
        """
        with tempfile.TemporaryDirectory() as temporary:
            target = Path(temporary) / "requirements.lock"
            if self.locked.exists() and not upgrade:
                target.write_text(self.locked.read_text())
            answer = subprocess.run(
                [
                    sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header",
                    "--python-version", PYTHON, "--python-platform", PLATFORM,
                    "--only-binary", ":all:", "--generate-hashes",
                    "--no-emit-index-url", "--no-emit-find-links",
                    *(word for file in self.overrides for word in ("--override", str(file))),
                    *(["--no-deps"] if self.is_addition else []),
                    "requirements.in", "--output-file", str(target),
                ],
                capture_output=True, text=True, check=False, cwd=self.folder,
            )  # fmt: skip
            if answer.returncode:
                reason = " ".join(answer.stderr.split())[:400]
                raise LockError(f"{self.folder.name}: requirements.in cannot be resolved: {reason}")
            return f"{self.mark()}\n{target.read_text()}"


def folder_of(build: Build) -> Path:
    """Return the build folder of an image."""
    return WORKLOADS / "images" / build.target


def locks() -> dict[str, PackageLock]:
    """Return the locks by image folder, including that of the job that transfers weights.

    An image without packages of its own has no lock.
    """
    found = {
        build.target: PackageLock(
            folder_of(build), is_addition=build.base_entry.startswith("images.")
        )
        for build in builds().values()
    }
    found["transfer"] = PackageLock(WORKLOADS / "transfer")
    return {name: lock for name, lock in found.items() if lock.wanted.exists()}


def images_with_locks() -> dict[str, str]:
    """Return the folders of the images whose packages are locked, by the image's name."""
    found = locks()
    return {name: each.target for name, each in builds().items() if each.target in found}


def refresh(
    *, check: bool, upgrade: bool = False, only: Collection[str] | None = None
) -> list[str]:
    """Resolve locks and write those that changed; return the names of those.

    Args:
        check: Whether to write nothing.
        upgrade: Whether to use the newest versions that fit.
        only: Folders of the images to resolve; None: all.

    Raises:
        LockError: The index does not have a requirement.
    """
    changed: list[str] = []
    for name, lock in locks().items():
        if only is not None and name not in only:
            continue
        text = lock.resolve(upgrade=upgrade)
        if lock.locked.exists() and text == lock.locked.read_text():
            continue
        changed.append(name)
        if not check:
            lock.locked.write_text(text)
    return changed
