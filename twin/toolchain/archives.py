"""Extraction of programs from archives: a tar stream, a tar file or a zip file."""

import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO


class ArchiveError(Exception):
    """An archive cannot be read, or a program is missing in it."""


def unpack(archive: Path, members: Mapping[str, str], folder: Path) -> None:
    """Extract programs from an archive into a folder, and nothing else.

    Args:
        archive: a tar file, compressed or not, or a zip file.
        members: programs and their paths in the archive.
        folder: output folder.

    Raises:
        ArchiveError: the archive cannot be read, or a program is missing in it.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                _from_zip(zipped, members, folder)
        else:
            with archive.open("rb") as stream:
                unpack_stream(stream, members, folder)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise ArchiveError(f"{archive.name} cannot be unpacked: {error}") from None


def unpack_stream(stream: IO[bytes], members: Mapping[str, str], folder: Path) -> None:
    """Extract programs from a tar stream into a folder.

    Raises:
        ArchiveError: a program is not in it.
        tarfile.TarError: the stream is not a tar file.
    """
    programs = {_plain(path): program for program, path in members.items()}
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        for entry in archive:
            program = programs.get(_plain(entry.name))
            content = archive.extractfile(entry) if program and entry.isfile() else None
            if program is not None and content is not None:
                _write(content, folder / program)
                del programs[_plain(entry.name)]
    _refuse_absent(programs)


def install(file: Path, target: Path) -> None:
    """Move a downloaded file to its place and make it executable."""
    shutil.move(file, target)
    target.chmod(0o755)


def _from_zip(archive: zipfile.ZipFile, members: Mapping[str, str], folder: Path) -> None:
    programs = {_plain(path): program for program, path in members.items()}
    for name in archive.namelist():
        program = programs.pop(_plain(name), None)
        if program is not None:
            with archive.open(name) as content:
                _write(content, folder / program)
    _refuse_absent(programs)


def _plain(name: str) -> str:
    return str(PurePosixPath(name.lstrip("/")))


def _write(content: IO[bytes], target: Path) -> None:
    with target.open("wb") as stream:
        shutil.copyfileobj(content, stream, 1 << 20)
    target.chmod(0o755)


def _refuse_absent(programs: Mapping[str, str]) -> None:
    if programs:
        raise ArchiveError(f"it has no {', '.join(sorted(programs))}")
