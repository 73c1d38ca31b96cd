"""The recorded licenses, one package a line: registry, name, version, SPDX expression."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from scripts.terminal.console import CommandError

RECORD: Final = Path(__file__).with_name("record.txt")
READ_AGAIN: Final = "run `.venv/bin/python -m scripts.release.contents.read`"


class Registry(StrEnum):
    """Where a package comes from: the type of its package URL."""

    GO = "golang"
    PYPI = "pypi"


class Package(NamedTuple):
    """A package at a version."""

    registry: Registry
    name: str
    version: str

    @property
    def url(self) -> str:
        """Its package URL (purl)."""
        return f"pkg:{self.registry}/{self.name}@{self.version.replace('+', '%2B')}"


def read_record(file: Path = RECORD) -> dict[Package, str]:
    """Return the license of each recorded package, as an SPDX expression."""
    found: dict[Package, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        registry, name, version, expression = line.split(" ", 3)
        found[Package(Registry(registry), name, version)] = expression
    return found


def write_record(licenses: Mapping[Package, str], file: Path = RECORD) -> None:
    """Write the license of each package, sorted."""
    lines = (f"{' '.join(package)} {licenses[package]}\n" for package in sorted(licenses))
    file.write_text("".join(lines), encoding="utf-8")


def license_of(package: Package, record: Mapping[Package, str]) -> str:
    """Return the recorded license of a package.

    Raises:
        CommandError: It has none.
    """
    if package not in record:
        raise CommandError(f"{package.url}: has no recorded license: {READ_AGAIN}")
    return record[package]


def unrecorded(packages: Iterable[Package], record: Mapping[Package, str]) -> list[str]:
    """Return the package URLs without a recorded license, and those recorded for no package."""
    shipped = set(packages)
    return sorted(
        [f"{each.url}: has no recorded license" for each in shipped - {*record}]
        + [
            f"{each.url}: is recorded, and in nothing that is shipped"
            for each in {*record} - shipped
        ]
    )
