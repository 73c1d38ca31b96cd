"""Versions of a model's weights in one bucket, and their completeness."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workloads.engine.weights_manifest import (
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    FileEntry,
    Manifest,
)
from workloads.transfer.errors import AlreadyThere, Refused, TransferError
from workloads.transfer.store import Store, Stored

PARTS = "_parts"
"""Folder beside the versions with the parts of files that are on their way."""


@dataclass(frozen=True)
class Home:
    """The folder of a model in one bucket."""

    bucket: str
    folder: str

    @property
    def uri(self) -> str:
        """The `gs://` form."""
        return f"gs://{self.bucket}/{self.folder}"

    def object(self, version: str, name: str) -> str:
        """Return the name of the object that a file of a version is."""
        return f"{self.folder}/{version}/{name}"

    def manifest(self, version: str) -> str:
        """Return the name of a version's manifest."""
        return self.object(version, MANIFEST_NAME)

    @property
    def current(self) -> str:
        """Name of the pointer."""
        return f"{self.folder}/{CURRENT_NAME}"

    def parts(self, version: str) -> str:
        """Return what the names of a version's parts begin with."""
        return f"{self.folder}/{PARTS}/{version}/"


@dataclass(frozen=True)
class Found:
    """A version in one bucket."""

    manifest: Manifest | None
    """None: nobody finished it."""
    objects: Mapping[str, Stored]
    """Its files by their name below the version's folder, without the manifest."""

    @property
    def is_complete(self) -> bool:
        """Whether it has a manifest and every file that it names, as it names it."""
        if self.manifest is None:
            return False
        files = self.manifest.files
        return not self.missing(files) and not self.differing(files)

    @property
    def size(self) -> int:
        """Bytes of what is there."""
        return sum(stored.size for stored in self.objects.values())

    def differing(self, files: Iterable[FileEntry]) -> list[str]:
        """Return the names of objects that are not what the files are; missing ones are not."""
        wanted = {file.name: file for file in files}
        return sorted(
            name
            for name, stored in self.objects.items()
            if name not in wanted or not is_same(wanted[name], stored)
        )

    def missing(self, files: Iterable[FileEntry]) -> list[FileEntry]:
        """Return the files that are not there."""
        return [file for file in files if file.name not in self.objects]


def is_same(file: FileEntry, stored: Stored) -> bool:
    """Return whether an object has a file's size and checksum."""
    return stored.size == file.size and stored.crc32c == file.crc32c


def look(store: Store, home: Home, version: str) -> Found:
    """Return what a bucket has of a version.

    Raises:
        TransferError: The bucket cannot be read, or its manifest is none.
    """
    prefix = home.object(version, "")
    objects = store.objects(home.bucket, prefix)
    has_manifest = objects.pop(home.manifest(version), None) is not None
    return Found(
        read_manifest(store, home, version) if has_manifest else None,
        {name.removeprefix(prefix): stored for name, stored in objects.items()},
    )


def read_manifest(store: Store, home: Home, version: str) -> Manifest | None:
    """Return the manifest of a version, or None if there is none.

    Raises:
        TransferError: The object is no manifest, or is another version's.
    """
    text = store.read(home.bucket, home.manifest(version))
    if text is None:
        return None
    where = f"gs://{home.bucket}/{home.manifest(version)}"
    try:
        found = Manifest.parse(text)
    except ValueError as error:
        raise TransferError(f"{where}: {error}") from None
    if found.version != version:
        raise TransferError(f"{where}: version: must be {version!r}, got {found.version!r}")
    return found


def read_current(store: Store, home: Home) -> str | None:
    """Return the current version, or None if nothing is current.

    Raises:
        TransferError: The pointer is none.
    """
    text = store.read(home.bucket, home.current)
    if text is None:
        return None
    try:
        return Current.parse(text).version
    except ValueError as error:
        raise TransferError(f"gs://{home.bucket}/{home.current}: {error}") from None


def set_current(store: Store, home: Home, version: str) -> bool:
    """Make a complete version the current one; return whether that changed anything.

    Raises:
        Refused: The version is not complete.
        TransferError: Somebody else changed the pointer meanwhile.
    """
    if read_manifest(store, home, version) is None:
        raise Refused(f"{home.uri}/{version}: must be complete before it is current: push it first")
    if read_current(store, home) == version:
        return False
    stored = store.get(home.bucket, home.current)
    generation = 0 if stored is None else stored.generation
    try:
        store.write(home.bucket, home.current, Current(version).dump(), generation=generation)
    except AlreadyThere:
        raise TransferError(f"gs://{home.bucket}/{home.current}: changed meanwhile") from None
    return True


def check_room(found: Found, home: Home, manifest: Manifest) -> None:
    """Refuse to change a version: one that is complete, and one begun with other files.

    Raises:
        Refused: The bucket has the version with another content.
    """
    where = f"{home.uri}/{manifest.version}"
    if found.manifest is not None and found.manifest.files != manifest.files:
        raise Refused(
            f"{where}: versions never change, and this one has other files; "
            "leave out --version, or give another"
        )
    other = found.differing(manifest.files)
    if other:
        raise Refused(
            f"{where}/{other[0]}: must be the file that is sent, and is another one; "
            f"run `gke-inference models rm` for version {manifest.version} first"
        )


def finish(store: Store, home: Home, manifest: Manifest) -> None:
    """Check that every file arrived, write the manifest, and remove the parts.

    Raises:
        TransferError: A file is missing or differs; there is no manifest then.
    """
    found = look(store, home, manifest.version)
    missing = [file.name for file in found.missing(manifest.files)]
    wrong = [*missing, *found.differing(manifest.files)]
    if wrong:
        raise TransferError(f"{home.uri}/{manifest.version}/{wrong[0]}: did not arrive as it was")
    if found.manifest is None:
        try:
            name = home.manifest(manifest.version)
            store.write(home.bucket, name, manifest.dump(), generation=0)
        except AlreadyThere:
            check_room(look(store, home, manifest.version), home, manifest)
    for name in store.objects(home.bucket, home.parts(manifest.version)):
        store.delete(home.bucket, name)


def now() -> str:
    """Return the time of now, RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
