"""Finds, checks and hashes the files of a model before anything is sent."""

import fnmatch
import io
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workloads.engine.weights_manifest import FileEntry, check_name
from workloads.transfer.checksums import Checksums
from workloads.transfer.errors import Refused
from workloads.transfer.work import Crew, Progress

INDEX: Final = "model.safetensors.index.json"
_SAFETENSORS: Final = ".safetensors"
_LONGEST_HEADER: Final = 100 * 2**20  # safetensors' own limit
CHUNK: Final = 8 * 2**20
"""Bytes read at a time."""


@dataclass(frozen=True)
class SourceFile:
    """A file on this machine."""

    name: str
    """Path below the folder, as the bucket has it."""
    path: Path
    size: int


class FileSlice(io.RawIOBase):
    """A part of a file as a stream of its own; several threads read one file with one each."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        """Open a part: `size` bytes from `start`."""
        self._file = path.open("rb", buffering=0)
        self._start, self._size, self._at = start, size, 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return true."""
        return True

    def tell(self) -> int:
        """Return the position in the part."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in the part."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer and return the number of bytes."""
        view = memoryview(buffer)
        wanted = max(0, min(len(view), self._size - self._at))
        read = os.preadv(self._file.fileno(), [view[:wanted]], self._start + self._at)
        self._at += read
        return read

    def chunks(self) -> Iterator[bytes]:
        """Yield the rest of the part."""
        while chunk := self.read(CHUNK):
            yield chunk

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def snapshot(folder: Path) -> Path:
    """Return the folder with the files: of the hub's cache, the one that `main` names.

    Raises:
        Refused: It is no folder, or a cache of several snapshots without a main one.
    """
    if not folder.is_dir():
        raise Refused(f"SOURCE: must be a folder with a model, got {str(folder)!r}")
    snapshots = folder / "snapshots"
    if not (folder / "refs").is_dir() or not snapshots.is_dir():
        return folder
    known = sorted(each.name for each in snapshots.iterdir() if each.is_dir())
    main = folder / "refs" / "main"
    named = main.read_text().strip() if main.is_file() else ""
    if named in known:
        return snapshots / named
    if len(known) == 1:
        return snapshots / known[0]
    rule = f"must be one snapshot of the cache ({', '.join(known) or 'it has none'})"
    raise Refused(f"SOURCE: {rule}, got {str(folder)!r}")


def scan(folder: Path, exclude: Sequence[str] = ()) -> list[SourceFile]:
    """Return the files of a model, sorted by name; hidden files and folders are left out.

    Links are followed, as the hub's cache is made of them.

    Args:
        folder: Folder of the model.
        exclude: Patterns of names to leave out, such as `original/*`.

    Raises:
        Refused: A file is missing, cut short, or has a name that no bucket should have.
    """
    found: list[SourceFile] = []
    for where, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in names:
            path = Path(where, each)
            name = path.relative_to(folder).as_posix()
            if each.startswith(".") or any(fnmatch.fnmatch(name, one) for one in exclude):
                continue
            found.append(SourceFile(_name(name), path, _size(path, name)))
    found.sort(key=lambda file: file.name)
    _check(folder, found)
    return found


def hash_files(
    files: Sequence[SourceFile], crew: Crew, progress: Progress, known: "HashCache | None" = None
) -> list[FileEntry]:
    """Return the entries of a manifest, each file read once.

    Args:
        files: Files, sorted by name.
        crew: Threads that read.
        progress: Takes the bytes that were read.
        known: Hashes of earlier runs; files that changed since are read again.
    """
    cache = HashCache(None) if known is None else known
    missing = [file for file in files if cache.get(file) is None]
    total = sum(file.size for file in files)
    progress.begin("hash", total, total - sum(file.size for file in missing))

    def task(file: SourceFile) -> Callable[[], None]:
        return lambda: cache.put(file, _hash(file, crew, progress))

    # the largest first: the last one decides when all are done
    crew.run([task(file) for file in sorted(missing, key=lambda file: -file.size)])
    return [_entry(file, cache) for file in files]


class HashCache:
    """Hashes of files that were read before, by path, size and time of change."""

    def __init__(self, file: Path | None) -> None:
        """Open the cache; without a file it is kept in memory only."""
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, list[str]] = {}
        try:
            content: Any = json.loads(file.read_text()) if file is not None else {}
        except (OSError, ValueError):
            content = {}
        if isinstance(content, dict):
            self._known = content

    def get(self, file: SourceFile) -> tuple[str, str] | None:
        """Return CRC-32C and SHA-256 of a file, or None if they are not known."""
        found = self._known.get(_key(file))
        return None if found is None else (found[0], found[1])

    def put(self, file: SourceFile, hashes: tuple[str, str]) -> None:
        """Remember the hashes of a file."""
        with self._lock:
            self._known[_key(file)] = list(hashes)
            if self._file is None:
                return
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside = self._file.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(self._known, indent=0))
            beside.replace(self._file)


def _hash(file: SourceFile, crew: Crew, progress: Progress) -> tuple[str, str]:
    sums = Checksums()
    with file.path.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            crew.check()
            sums.update(chunk)
            progress.add(len(chunk))
    if sums.size != file.size:
        raise Refused(f"{file.name}: must not change while it is read, got {sums.size} bytes")
    return sums.crc32c, sums.sha256


def _entry(file: SourceFile, cache: HashCache) -> FileEntry:
    hashes = cache.get(file)
    if hashes is None:
        raise Refused(f"{file.name}: must not change while it is read")
    return FileEntry(file.name, file.size, *hashes)


def _key(file: SourceFile) -> str:
    status = file.path.stat()
    return f"{file.path.resolve()}:{status.st_size}:{status.st_mtime_ns}"


def _name(name: str) -> str:
    try:
        return check_name(name, "SOURCE")
    except ValueError as error:
        raise Refused(str(error)) from None


def _size(path: Path, name: str) -> int:
    if not path.is_file():
        raise Refused(f"{name}: must be a file or a link to one, got a link to nothing")
    return path.stat().st_size


def _check(folder: Path, files: Sequence[SourceFile]) -> None:
    """Check that an engine can load the files, before they are sent."""
    if not files:
        raise Refused(f"SOURCE: must be a folder with a model, got {str(folder)!r}, which is empty")
    names = {file.name for file in files}
    for file in files:
        if file.name.endswith(_SAFETENSORS):
            _check_safetensors(file)
        if file.name.rpartition("/")[2] == INDEX:
            prefix = file.name[: -len(INDEX)]
            for part in _parts(file):
                if prefix + part not in names:
                    raise Refused(f"{prefix}{part}: must be there, as {file.name} names it")


def _parts(index: SourceFile) -> list[str]:
    try:
        content: Any = json.loads(index.path.read_text())
        return sorted(set(content["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise Refused(f"{index.name}: must be an index of safetensors, with weight_map") from None


def _check_safetensors(file: SourceFile) -> None:
    """Refuse a file whose length is not what its header says: a download that was cut short."""
    with file.path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= min(_LONGEST_HEADER, max(0, file.size - 8)):
            raise Refused(f"{file.name}: must be a whole safetensors file, got {file.size} bytes")
        try:
            header: dict[str, Any] = json.loads(stream.read(length))
            ends = [
                int(tensor["data_offsets"][1])
                for name, tensor in header.items()
                if name != "__metadata__"
            ]
        except (ValueError, KeyError, AttributeError, TypeError, IndexError):
            raise Refused(f"{file.name}: must be a safetensors file, got another header") from None
    wanted = 8 + length + max(ends, default=0)
    if wanted != file.size:
        raise Refused(f"{file.name}: must have {wanted} bytes by its header, got {file.size}")
