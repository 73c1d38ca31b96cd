"""Checksums of official binaries: `twin/tools/lock.yaml`, and those in this user's cache."""

import json
import re
from collections.abc import Mapping

import yaml

from twin.toolchain.cache import cache_root, locked
from twin.toolchain.registry import MODULES, modules
from twin.toolchain.sources import downloads, platforms

LOCK = MODULES / "lock.yaml"
_RECORD = "checksums.json"
_ALGORITHM = "sha256:"
_HEADER = """\
# SHA-256 checksums of the official binaries, by address; of an image, its digest on a platform.
# Written by `gke-inference tools lock`; never by hand. Empty: not read yet. Then the checksum that
# the project publishes beside the file counts, and the user's cache keeps it.
"""
CHECKSUM = re.compile(r"[0-9a-f]{64}")
"""A SHA-256 checksum, in hexadecimal."""


def addresses() -> list[str]:
    """Return the download addresses of all tools on all platforms, sorted."""
    found = {
        download.address
        for module in modules().values()
        for platform in platforms(module)
        for release in downloads(module, platform)
        for download in release
    }
    return sorted(found)


def read_lock() -> dict[str, str]:
    """Return the checksum of each address in the repository's lock; empty if it is unknown."""
    content: dict[str, str | None] = yaml.safe_load(LOCK.read_text()) or {}
    return {
        address: (checksum or "").removeprefix(_ALGORITHM) for address, checksum in content.items()
    }


def write_lock(checksums: Mapping[str, str]) -> None:
    """Write the repository's lock with only the addresses of the current versions."""
    lines: list[str] = []
    for address in addresses():
        checksum = checksums.get(address, "")
        lines.append(f"{address}: {_ALGORITHM}{checksum}" if checksum else f"{address}:")
    partial = LOCK.with_suffix(".tmp")
    partial.write_text(_HEADER + "\n".join(lines) + "\n")
    partial.replace(LOCK)


def expected(address: str) -> tuple[str, str]:
    """Return the required checksum of an address and its source; empty strings if unknown."""
    if checksum := read_lock().get(address, ""):
        return checksum, "twin/tools/lock.yaml"
    if checksum := _recorded().get(address, ""):
        return checksum, "the first download, recorded in the cache"
    return "", ""


def record(address: str, checksum: str) -> None:
    """Record a published checksum, which later downloads of the address must match."""
    with locked("checksums"):
        known = _recorded() | {address: checksum}
        partial = cache_root() / f".{_RECORD}.tmp"
        partial.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        partial.replace(cache_root() / _RECORD)


def _recorded() -> dict[str, str]:
    try:
        return json.loads((cache_root() / _RECORD).read_text())
    except (FileNotFoundError, ValueError):
        return {}
