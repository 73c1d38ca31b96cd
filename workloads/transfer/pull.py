"""Downloads a version to a folder; existing files are not downloaded again."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from workloads.engine.weights_manifest import MANIFEST_NAME, FileEntry, Manifest
from workloads.transfer.checksums import Checksums
from workloads.transfer.errors import Refused, TransferError
from workloads.transfer.store import Store
from workloads.transfer.versions import Home
from workloads.transfer.work import Crew, Progress

PARTIAL: Final = ".partial"
_CHUNK: Final = 8 * 2**20


def pull(
    store: Store, home: Home, manifest: Manifest, folder: Path, crew: Crew, progress: Progress
) -> int:
    """Download every file of a version to a folder, manifest last; return the bytes received.

    A file that was cut short continues where it ended. A file of the right size is hashed, and
    stays if it is the right one.

    Raises:
        Refused: The folder has another file under a name of the version; nothing was written.
        TransferError: A file cannot be read, or arrived with another checksum.
    """
    present = [file for file in manifest.files if (folder / file.name).exists()]
    wrong_size = [f for f in present if (folder / f.name).stat().st_size != f.size]
    if wrong_size:
        raise Refused(f"{folder / wrong_size[0].name}: must not be there, or be the version's file")
    free = shutil.disk_usage(_existing(folder)).free
    missing = [file for file in manifest.files if file not in present]
    needed = sum(file.size - _partial_size(folder, file) for file in missing)
    if needed > free:
        raise Refused(f"{folder}: must have room for {needed} bytes, got {free}")
    progress.begin("check what is there", sum(file.size for file in present))
    crew.run([partial(_check, folder, file, crew, progress) for file in present])
    progress.begin(f"pull from gs://{home.bucket}", manifest.size, manifest.size - needed)
    tasks: list[Callable[[], int]] = [
        partial(_fetch, store, home, manifest.version, file, folder, crew, progress)
        for file in sorted(missing, key=lambda file: -file.size)
    ]
    received = sum(crew.run(tasks))
    (folder / MANIFEST_NAME).write_text(manifest.dump())
    return received


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.resolve().parents) if each.exists())


def _partial_size(folder: Path, file: FileEntry) -> int:
    try:
        size = (folder / (file.name + PARTIAL)).stat().st_size
    except FileNotFoundError:
        return 0
    return size if size <= file.size else 0


def _check(folder: Path, file: FileEntry, crew: Crew, progress: Progress) -> None:
    sums = Checksums()
    with (folder / file.name).open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK):
            crew.check()
            sums.update(chunk)
            progress.add(len(chunk))
    if sums.sha256 != file.sha256:
        raise Refused(f"{folder / file.name}: must not be there, or be the version's file")


def _fetch(
    store: Store,
    home: Home,
    version: str,
    file: FileEntry,
    folder: Path,
    crew: Crew,
    progress: Progress,
) -> int:
    """Download one file, continuing an earlier run; return the bytes received."""
    path, begun = folder / file.name, folder / (file.name + PARTIAL)
    path.parent.mkdir(parents=True, exist_ok=True)
    start, sums = _partial_size(folder, file), Checksums()
    with begun.open("r+b" if start else "wb") as stream:
        while stream.tell() < start:
            sums.update(stream.read(min(_CHUNK, start - stream.tell())))
        name = home.object(version, file.name)
        for chunk in store.chunks(home.bucket, name, file.size, start):
            crew.check()
            stream.write(chunk)
            sums.update(chunk)
            progress.add(len(chunk))
    if (sums.crc32c, sums.sha256) != (file.crc32c, file.sha256):
        begun.unlink()
        raise TransferError(f"gs://{home.bucket}/{name}: arrived with another checksum")
    begun.replace(path)
    return file.size - start
