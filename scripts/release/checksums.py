"""Checksums of the files of a release, and the comparison of two builds."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHECKSUMS: Final = "SHA256SUMS"
SIGNATURE: Final = "SHA256SUMS.sig"
"""Signature of the list of checksums, in base64; a release may have none."""


def checksum_of(file: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def checksums_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 checksum of each file of a folder by name.

    The list itself and its signature are left out.
    """
    return {
        file.name: checksum_of(file)
        for file in sorted(folder.iterdir())
        if file.name not in (CHECKSUMS, SIGNATURE)
    }


def write_checksums(folder: Path) -> None:
    """Write the checksums of a folder's files, as `sha256sum --check` reads them."""
    lines = [f"{checksum}  {name}\n" for name, checksum in checksums_of(folder).items()]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return a line for each file that two builds do not have alike, with its name first."""
    found: list[str] = []
    for name in sorted({*first, *second}):
        if name not in second:
            found.append(f"{name}: only in the first build")
        elif name not in first:
            found.append(f"{name}: only in the second build")
        elif first[name] != second[name]:
            found.append(f"{name}: differs, {first[name]} and {second[name]}")
    return found
