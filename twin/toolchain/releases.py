"""Official binaries: download, verification and extraction."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twin.toolchain import archives, images, network
from twin.toolchain.cache import cache_root, locked, store
from twin.toolchain.find import missing
from twin.toolchain.lock import CHECKSUM, expected, record
from twin.toolchain.registry import Module, modules
from twin.toolchain.sources import Download, current_platform, downloads

Progress = Callable[[str, int, int, str], None]
"""Called with module, completed steps, total steps, and the current step."""


class ReleaseError(Exception):
    """No official binary is usable; the message gives the reason."""


def install_release(module: Module, target: Path, announce: Progress) -> dict[str, Any]:
    """Install a module's official programs in a folder and return their origin.

    Its releases are tried in order.

    Raises:
        ReleaseError: no release is usable; the message has the reason of each.
    """
    reasons: list[str] = []
    for release in downloads(module, current_platform()):
        try:
            checksums = _install(module, release, target, announce)
        except (ReleaseError, archives.ArchiveError, network.NetworkError) as error:
            reasons.append(str(error))
        else:
            return {"from": "release", "checksums": checksums}
    raise ReleaseError("; ".join(reasons) or f"none is published for {current_platform()}")


def _install(
    module: Module, release: list[Download], target: Path, announce: Progress
) -> dict[str, str]:
    checksums: dict[str, str] = {}
    for done, download in enumerate(release):
        announce(module.name, done, len(release), f"downloading {_title(download)}")
        if download.is_image:
            ensure_crane(announce)
            checksums[download.address] = images.install_image(download, target, checksum_of)
        else:
            checksums[download.address] = _install_file(download, target)
    announce(module.name, len(release), len(release), "downloaded")
    return checksums


def ensure_crane(announce: Progress) -> None:
    """Install crane, which reads images, if an official binary is usable.

    Building it takes as long as building the image's program.

    Raises:
        ReleaseError: crane is missing and has no usable official binary.
    """
    crane = modules()["crane"]
    with locked(crane.key):
        if not missing([crane]):
            return
        try:
            store(crane, lambda target: install_release(crane, target / "bin", announce))
        except ReleaseError as error:
            raise ReleaseError(f"no crane to read images with: {error}") from None


def _title(download: Download) -> str:
    return download.reference if download.is_image else download.file_name


def _install_file(download: Download, target: Path) -> str:
    checksum, source = checksum_of(download)
    if not checksum:
        raise ReleaseError(
            f"{download.address}: no checksum is published, and twin/tools/lock.yaml has none"
        )
    # named after its expected content, so that a new file at an old address does not resume the old
    file = cache_root() / "downloads" / f"{checksum[:12]}-{download.file_name}"
    network.fetch(download.address, file)
    actual = _sha256(file)
    if actual != checksum:
        file.unlink()
        raise ReleaseError(
            f"{download.address}: the checksum must be {checksum} ({source}), got {actual}"
        )
    [(program, path)] = list(download.members.items())[:1]
    if path:
        archives.unpack(file, download.members, target)
        file.unlink()
    else:
        archives.install(file, target / program)
    return checksum


def checksum_of(download: Download) -> tuple[str, str]:
    """Return the required checksum of a download and its source; empty if unknown.

    Raises:
        ReleaseError: the published file of checksums does not list it.
        twin.toolchain.network.NetworkError: the published checksum cannot be read.
    """
    checksum, source = expected(download.address)
    if checksum or (not download.checksums and not download.is_image):
        return checksum, source
    checksum = published_checksum(download)
    record(download.address, checksum)
    return checksum, "published beside it"


def published_checksum(download: Download) -> str:
    """Return the checksum that the project publishes; of an image, its digest in the registry.

    Raises:
        ReleaseError: the published file of checksums does not list it.
        twin.toolchain.network.NetworkError: it cannot be read.
    """
    if download.is_image:
        return images.digest_of(download)
    for line in network.read_text(download.checksums).splitlines():
        checksum, _, name = line.strip().partition(" ")
        if name.strip().lstrip("*") in ("", download.file_name) and CHECKSUM.fullmatch(checksum):
            return checksum
    raise ReleaseError(f"{download.checksums} lists no checksum of {download.file_name}")


def downloaded_checksum(download: Download) -> str:
    """Return the checksum of a file that is downloaded for this: for the lock.

    Raises:
        twin.toolchain.network.NetworkError: it cannot be downloaded.
    """
    file = cache_root() / "downloads" / f"lock-{download.file_name}"
    network.fetch(download.address, file)
    try:
        return _sha256(file)
    finally:
        file.unlink()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
