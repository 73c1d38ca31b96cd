"""Extraction of programs from container images with crane."""

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from twin.toolchain import archives, network
from twin.toolchain.find import tool
from twin.toolchain.lock import CHECKSUM
from twin.toolchain.registry import ToolError
from twin.toolchain.sources import Download

_DIGEST_SECONDS = 30
_EXPORT_SECONDS = 300


def install_image(
    download: Download, target: Path, checksum_of: Callable[[Download], tuple[str, str]]
) -> str:
    """Copy programs of an image into a folder and return the image's digest, without `sha256:`.

    The image is requested by digest, so crane rejects any other content.

    Raises:
        twin.toolchain.network.NetworkError: the registry has not got it.
        twin.toolchain.archives.ArchiveError: a program is not in it.
    """
    digest, _ = checksum_of(download)
    network.check_reachable(network.registry_of(download.reference))
    repository = network.image_through_mirror(download.reference).rsplit(":", 1)[0]
    command = _crane("export", f"{repository}@sha256:{digest}", "-")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if process.stdout is None or process.stderr is None:
            raise network.NetworkError(f"{download.reference}: crane's output cannot be read")
        problem = ""
        try:
            archives.unpack_stream(process.stdout, download.members, target)
        except (archives.ArchiveError, tarfile.TarError, EOFError) as error:
            problem = str(error)
        process.stdout.read()  # crane fails where its reader ends first
        errors = process.stderr.read().decode(errors="replace")
        if process.wait(_EXPORT_SECONDS):
            raise network.NetworkError(f"{download.reference}: {_last(errors)}")
    if problem:
        raise archives.ArchiveError(f"{download.reference}: {problem}")
    return digest


def digest_of(download: Download) -> str:
    """Return the current digest of an image for its platform in the registry.

    Raises:
        twin.toolchain.network.NetworkError: the registry has not got it.
    """
    network.check_reachable(network.registry_of(download.reference))
    reference = network.image_through_mirror(download.reference)
    command = _crane("digest", "--platform", download.platform, reference)
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_DIGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise network.NetworkError(
            f"{download.reference}: no answer in {_DIGEST_SECONDS} s"
        ) from None
    digest = answer.stdout.strip().removeprefix("sha256:")
    if answer.returncode or not CHECKSUM.fullmatch(digest):
        raise network.NetworkError(f"{download.reference}: {_last(answer.stderr)}")
    return digest


def _crane(*arguments: str) -> list[str]:
    try:
        crane = tool("crane")
    except ToolError as error:
        raise network.NetworkError(f"images cannot be read: {error}") from None
    return [str(crane), *arguments, *(["--insecure"] if _is_insecure() else [])]


def _is_insecure() -> bool:
    return network.mirror().startswith("http://")


def _last(errors: str) -> str:
    lines = errors.strip().splitlines()
    return lines[-1] if lines else "crane failed without a message"
