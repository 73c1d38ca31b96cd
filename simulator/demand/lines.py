"""Lines of traffic files, streamed, also from gzip."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from gke_inference.catalogue.input_error import InputError

MOST_BYTES = 8 << 30
"""Longest file of requests, unpacked. Azure's week of 2024, the longest public one, has 2 GB."""
MOST_LINE = 4 << 20
"""Longest line, such as a prompt with 500,000 blocks."""
_GZIP = b"\x1f\x8b"


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed with gzip."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP


def check_size(path: Path, most: int = MOST_BYTES) -> None:
    """Check the size of a file before it is read.

    Raises:
        InputError: It is empty or longer than allowed.
    """
    size = path.stat().st_size
    if size == 0:
        raise InputError(str(path), "must have requests, got an empty file")
    if size > most:
        raise InputError(str(path), f"must have at most {most:,} bytes; sample or split it", size)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbers of lines, from 1, and the lines that are not empty.

    Raises:
        InputError: The file is too long, or not text.
    """
    check_size(path)
    read = 0
    with _open(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(MOST_LINE + 1)
            except (OSError, EOFError) as error:
                raise InputError(str(path), f"must be readable: {error}") from None
            if not line:
                return
            read += len(line)
            if len(line) > MOST_LINE or read > MOST_BYTES:
                where = f"{path}:{number}"
                rule = f"must have at most {MOST_LINE:,} bytes per line and {MOST_BYTES:,} in all"
                raise InputError(where, rule)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                raise InputError(f"{path}:{number}", "must be text in UTF-8") from None
            if text:
                yield number, text


def first_line(path: Path) -> str:
    """Return the first line that is not empty, up to `MOST_LINE`; empty if there is none.

    The result of a benchmark is one line of any length.

    Raises:
        InputError: The file cannot be unpacked.
    """
    with _open(path) as file:
        try:
            while line := file.readline(MOST_LINE):
                if line.strip():
                    return line.decode("utf-8-sig", errors="ignore").strip()
        except (OSError, EOFError) as error:
            raise InputError(str(path), f"must be readable: {error}") from None
    return ""


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_gzip(path) else path.open("rb")
