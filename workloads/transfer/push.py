"""Uploads a version to the buckets of its regions; existing objects are not sent again.

A large file goes as parts, several at a time, which Cloud Storage joins: a run that was killed
leaves parts, and the next one sends those that are missing. The manifest comes last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from workloads.engine.weights_manifest import FileEntry, Manifest
from workloads.transfer.checksums import crc32c_of
from workloads.transfer.errors import AlreadyThere, TransferError
from workloads.transfer.source import FileSlice, SourceFile
from workloads.transfer.store import Store
from workloads.transfer.versions import Found, Home, check_room, finish, is_same, look
from workloads.transfer.work import Crew, Progress

PART_BYTES: Final = 64 * 2**20
_MOST_PARTS: Final = 32 * 32  # two levels of joining
_JOINED: Final = 32  # https://cloud.google.com/storage/docs/composite-objects


@dataclass
class Sent:
    """Result of a push, in bytes."""

    sent: int = 0
    """Bytes sent from this machine."""
    copied: int = 0
    """Bytes copied between buckets, inside Cloud Storage."""
    buckets: list[str] = field(default_factory=list[str])
    """Buckets that had not been complete before."""


@dataclass(frozen=True)
class Part:
    """A range of a file, and the object that it becomes on its way."""

    file: SourceFile
    name: str
    start: int
    size: int


def push(
    store: Store,
    homes: Sequence[Home],
    files: Sequence[SourceFile],
    manifest: Manifest,
    crew: Crew,
    progress: Progress,
    *,
    part_bytes: int = PART_BYTES,
    is_direct: bool = False,
) -> Sent:
    """Upload a version to every home.

    Args:
        store: Cloud Storage.
        homes: Folders in different buckets.
        files: The files, as in the manifest.
        manifest: What the version is.
        crew: Threads that send.
        progress: Takes the bytes that arrive.
        part_bytes: Size of the parts of a large file.
        is_direct: Send to each bucket instead of copying from the first complete one.

    Raises:
        Refused: A bucket has the version with another content; nothing was sent.
        TransferError: A bucket cannot be read or written.
    """
    found: dict[Home, Found] = {}
    for home in homes:
        store.check_bucket(home.bucket)
        found[home] = look(store, home, manifest.version)
        check_room(found[home], home, manifest)
    manifest = next((each.manifest for each in found.values() if each.manifest), manifest)
    complete = [home for home in homes if found[home].is_complete]
    result = Sent(buckets=[home.bucket for home in homes if home not in complete])
    source = next(iter(complete), None)
    for home in homes:
        if home in complete:
            continue
        if source is None or is_direct:
            sender = _Sender(store, home, manifest, crew, progress, part_bytes)
            result.sent += sender.send(files, found[home])
            source = source or home
        else:
            result.copied += copy(store, source, home, manifest, crew, progress)
        finish(store, home, manifest)
    return result


def copy(
    store: Store, source: Home, target: Home, manifest: Manifest, crew: Crew, progress: Progress
) -> int:
    """Copy what a bucket is missing from another one, inside Cloud Storage; return the bytes.

    The manifest is left to `versions.finish`.

    Raises:
        TransferError: A copy failed or is not what the manifest says.
    """
    there = look(store, target, manifest.version)
    check_room(there, target, manifest)
    missing = there.missing(manifest.files)
    have = manifest.size - sum(file.size for file in missing)
    progress.begin(f"copy to gs://{target.bucket}", manifest.size, have)

    def one(file: FileEntry) -> int:
        name = source.object(manifest.version, file.name)
        made = store.copy(source.bucket, name, target.bucket, progress.add)
        if not is_same(file, made):
            store.delete(target.bucket, name)
            raise TransferError(f"gs://{source.bucket}/{name}: is not what its manifest says")
        return file.size

    return sum(crew.run([partial(one, file) for file in missing]))


def parts_of(home: Home, version: str, file: SourceFile, part_bytes: int) -> list[Part]:
    """Return the parts of a file; a file of one part has none."""
    if file.size <= part_bytes:
        return []
    size = max(part_bytes, -(-file.size // _MOST_PARTS))
    count = -(-file.size // size)
    return [
        Part(
            file,
            f"{home.parts(version)}{file.name}/{number:05d}-of-{count:05d}",
            number * size,
            min(size, file.size - number * size),
        )
        for number in range(count)
    ]


class _Sender:
    """Sends the files of a version to one bucket."""

    def __init__(
        self,
        store: Store,
        home: Home,
        manifest: Manifest,
        crew: Crew,
        progress: Progress,
        part_bytes: int,
    ) -> None:
        self._store, self._home, self._version = store, home, manifest.version
        self._entries = {file.name: file for file in manifest.files}
        self._crew, self._progress, self._part_bytes = crew, progress, part_bytes
        self._known = store.objects(home.bucket, home.parts(manifest.version))

    def send(self, files: Sequence[SourceFile], found: Found) -> int:
        """Send what is missing and return the bytes that were sent."""
        missing = [file for file in files if file.name not in found.objects]
        total = sum(file.size for file in files)
        have = total - sum(file.size for file in missing)
        self._progress.begin(f"send to gs://{self._home.bucket}", total, have)
        split = {
            file: parts_of(self._home, self._version, file, self._part_bytes) for file in missing
        }
        tasks: list[Callable[[], int]] = []
        for file, parts in split.items():
            tasks += [partial(self._part, part) for part in parts]
            if not parts:
                tasks.append(partial(self._whole, file))
        sent = sum(self._crew.run(tasks))
        joined = [(file, parts) for file, parts in split.items() if parts]
        self._crew.run([partial(self._join, file, parts) for file, parts in joined])
        return sent

    def _whole(self, file: SourceFile) -> int:
        entry = self._entries[file.name]
        name = self._home.object(self._version, file.name)
        with FileSlice(file.path, 0, file.size) as stream:
            try:
                crc32c = self._store.upload(
                    self._home.bucket, name, stream, file.size, is_final=True
                )
            except AlreadyThere:  # the answer to an earlier try was lost, or another push is faster
                self._check(entry, name)
                return 0
        if crc32c != entry.crc32c:
            self._store.delete(self._home.bucket, name)
            raise TransferError(f"{file.name}: changed while it was sent; push again")
        self._progress.add(file.size)
        return file.size

    def _part(self, part: Part) -> int:
        stored = self._known.get(part.name)
        with FileSlice(part.file.path, part.start, part.size) as stream:
            if stored is not None and stored.size == part.size:
                if crc32c_of(stream.chunks()) == stored.crc32c:
                    self._progress.add(part.size)
                    return 0
                stream.seek(0)
            self._store.upload(self._home.bucket, part.name, stream, part.size, is_final=False)
        self._progress.add(part.size)
        return part.size

    def _join(self, file: SourceFile, parts: Sequence[Part]) -> None:
        """Compose the object from its parts; more than 32 parts are first composed in groups."""
        bucket, entry = self._home.bucket, self._entries[file.name]
        names = [part.name for part in parts]
        if len(names) > _JOINED:
            groups = [names[at : at + _JOINED] for at in range(0, len(names), _JOINED)]
            names = [f"{group[0]}-joined" for group in groups]
            for name, group in zip(names, groups, strict=True):
                self._store.compose(bucket, group, name, is_final=False)
        name = self._home.object(self._version, file.name)
        try:
            made = self._store.compose(bucket, names, name, is_final=True)
        except AlreadyThere:
            self._check(entry, name)
            return
        if not is_same(entry, made):
            self._store.delete(bucket, name)
            raise TransferError(f"{file.name}: changed while it was sent; push again")

    def _check(self, entry: FileEntry, name: str) -> None:
        stored = self._store.get(self._home.bucket, name)
        if stored is None or not is_same(entry, stored):
            raise TransferError(
                f"gs://{self._home.bucket}/{name}: another push writes this version"
            )
