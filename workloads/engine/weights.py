"""Waits until the weights are complete, and reports what is missing.

A version of a model is complete once its manifest exists, which is written last, and every file in
the manifest has the listed size. Each name is looked up separately, in a mount and in a bucket.
Cloud Storage FUSE caches listings for the lifetime of its mount, but does not cache missing names
(`metadata-cache:negative-ttl-secs:0`; GoogleCloudPlatform/gcsfuse docs/semantics.md).
"""

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from . import hardware, triton, tritonserver
from .bucket import Bucket, BucketError
from .log import say
from .spec import ImageModel, Serving
from .weights_manifest import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    Manifest,
    check_folder,
)

_SAY_SECONDS = 30.0
_POLL_SECONDS = 1.0
_READERS = 8
_CHUNK = 8 * 2**20
_PARTS = {
    "triton": (triton.MODELS, triton.TOKENIZER),
    "tritonserver": (tritonserver.MODELS,),
}
"""Folders of the weights that an engine's command names."""


class Place(Protocol):
    """A folder, of a mounted volume or of a bucket."""

    uri: str

    def below(self, name: str) -> "Place":
        """Return a folder of this one."""
        ...

    def read(self, name: str) -> "str | None":
        """Return the text of a file, or None if there is none."""
        ...

    def has(self, name: str) -> bool:
        """Return whether there is a file with something in it."""
        ...

    def wrong(self, manifest: Manifest) -> "list[str]":
        """Return the files that are missing or are not what a manifest says."""
        ...


class Folder:
    """A folder of a mounted volume.

    Args:
        uri: path in the container.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.path = hardware.root() / uri.lstrip("/")

    def below(self, name: str) -> "Folder":
        """Return a folder of this one."""
        return Folder(f"{self.uri}/{name}")

    def read(self, name: str) -> "str | None":
        """Return the text of a file, or None if there is none."""
        try:
            return (self.path / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def has(self, name: str) -> bool:
        """Return whether there is a file with something in it."""
        try:
            return (self.path / name).stat().st_size > 0
        except OSError:
            return False

    def wrong(self, manifest: Manifest) -> "list[str]":
        """Return the files that are missing or have another size."""
        return check_folder(self.path, manifest)


@dataclass(frozen=True)
class Whole:
    """Complete weights."""

    source: str
    """The folder of the version."""
    manifest: Manifest


@dataclass(frozen=True)
class Weights:
    """Weights of one server, with their actual location."""

    serving: Serving
    """The same, with the folders of the versions."""
    manifest: Manifest
    moved: "tuple[tuple[str, str], ...]" = ()
    """Folders in the spec, each with its actual location."""

    def words(self, command: "Sequence[str]") -> "list[str]":
        """Return a command line with the folders of the versions."""
        return [self._moved(word) for word in command]

    def _moved(self, word: str) -> str:
        for before, after in self.moved:
            # subfolders, such as adapters, are unchanged
            word = re.sub(rf"{re.escape(before)}(?![\w./-])", after.replace("\\", r"\\"), word)
        return word


class MissingError(Exception):
    """Something does not exist yet; the message names it."""


class Waiting(Protocol):
    """Callback for the missing item; an empty text means that nothing is missing."""

    waits_for: str


def wait(serving: Serving, told: Waiting, stop: threading.Event) -> "Weights | None":
    """Wait until all weights of a server are complete; return None if it must end before.

    There is no time limit, because weights may be uploaded at any time.
    """
    said = ""
    at = 0.0
    while not stop.is_set():
        try:
            found = look(serving)
        except (MissingError, BucketError) as missing:
            told.waits_for = str(missing)
            now = time.monotonic()
            if said != told.waits_for or now - at >= _SAY_SECONDS:
                said, at = told.waits_for, now
                say("WARNING", f"waiting for weights: {said}", waits_for=said)
            stop.wait(_POLL_SECONDS)
            continue
        told.waits_for = ""
        source, manifest = found.serving.source, found.manifest
        text = f"weights are there: {_gib(manifest.size)}, version {manifest.version}"
        say("INFO", text, bytes=manifest.size, folder=source, version=manifest.version)
        return found
    return None


def look(serving: Serving) -> Weights:
    """Return the weights of a server if they are complete.

    Raises:
        MissingError: They are not complete.
        BucketError: A bucket cannot be read.
    """
    model = whole(place(serving.source), serving.has_versions, serving.version)
    moved = [(serving.source, model.source)]
    moved += [
        (f"{serving.source}/{part}", f"{model.source}/{part}")
        for part in _PARTS.get(serving.engine, ())
    ]
    found = replace(serving, source=model.source)
    guess = serving.speculation
    if guess is not None and guess.source is not None:
        draft = whole(place(guess.source), guess.has_versions, guess.version)
        moved.append((guess.source, draft.source))
        found = replace(found, speculation=replace(guess, source=draft.source))
    images: dict[str, ImageModel] = {}
    for name, image in serving.image_models.items():
        at = whole(place(image.source), image.has_versions, image.version)
        moved.append((image.source, at.source))
        images[name] = replace(image, source=at.source)
    found = replace(found, image_models=images)
    adapters = {name: adapter(Folder(at)) for name, at in serving.adapters.items()}
    moved += [(serving.adapters[name], at) for name, at in adapters.items()]
    found = replace(found, adapters=adapters)
    return Weights(found, model.manifest, tuple(moved))


def place(source: str) -> Place:
    """Return the folder of a `gs://` address or of a path in the container."""
    return Bucket(source) if "://" in source else Folder(source)


def whole(folder: Place, has_versions: bool, version: "str | None") -> Whole:
    """Return a complete version.

    Args:
        folder: Folder of the version, or of a model that has a folder for each version.
        has_versions: Whether `folder` is that of a model; its pointer then names the version.
        version: Required version; None: any.

    Raises:
        MissingError: A part of it is missing or wrong.
        BucketError: The bucket cannot be read.
    """
    name = CURRENT_NAME if has_versions else MANIFEST_NAME
    try:
        if has_versions:
            version = Current.parse(_read(folder, CURRENT_NAME)).version
            folder, name = folder.below(version), MANIFEST_NAME
        manifest = Manifest.parse(_read(folder, MANIFEST_NAME))
    except ValueError as error:
        raise MissingError(f"a good {folder.uri}/{name} ({error})") from None
    if version not in (None, manifest.version):
        raise MissingError(f"version {version} in {folder.uri}, which has {manifest.version}")
    wrong = folder.wrong(manifest)
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise MissingError(f"{folder.uri}/{wrong[0]}{more}, as its manifest describes it")
    return Whole(folder.uri, manifest)


def _read(folder: Place, name: str) -> str:
    text = folder.read(name)
    if text is None:
        raise MissingError(f"{folder.uri}/{name}")
    return text


def adapter(folder: Place) -> str:
    """Return where a complete adapter is, because an engine does not start without it.

    It is in the folder of the version that the adapter's pointer names. An adapter without versions
    is in its folder itself.

    Raises:
        MissingError: A file of the adapter is missing.
        BucketError: The bucket cannot be read.
    """
    if folder.read(CURRENT_NAME) is not None:
        return whole(folder, True, None).source
    if not folder.has(ADAPTER_CONFIG):
        raise MissingError(f"{folder.uri}/{CURRENT_NAME}")
    if not any(folder.has(each) for each in ADAPTER_WEIGHTS):
        raise MissingError(f"{folder.uri}/{ADAPTER_WEIGHTS[0]}")
    return folder.uri


class Progress:
    """Bytes, rate and remaining time, for a log line."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._first: tuple[float, int] | None = None

    def fields(self, have: int) -> "dict[str, float | int | None]":
        """Return the fields of a line: rate in bytes per second, remaining time in seconds."""
        now = time.monotonic()
        if self._first is None:
            self._first = (now, have)
        begun, before = self._first
        rate = (have - before) / (now - begun) if now > begun else 0.0
        left = max(0, self._expected - have)
        eta = round(left / rate) if rate and self._expected else None
        known = self._expected or None
        return {
            "bytes": have,
            "bytes_expected": known,
            "bytes_per_second": round(rate),
            "eta_seconds": eta,
        }


def read_ahead(found: Weights, stop: threading.Event) -> "threading.Thread | None":
    """Read a mounted model once, with several readers, so that the mount's cache is filled.

    An engine opens its files one after the other, but several readers get more throughput from a
    bucket. Reading runs during the engine's start and ends by itself.
    """
    serving = found.serving
    if "://" in serving.source or not serving.read_ahead:
        return None
    arguments = (Folder(serving.source).path, found.manifest, stop)
    thread = threading.Thread(target=_read_all, args=arguments, daemon=True)
    thread.start()
    return thread


def _read_all(folder: Path, manifest: Manifest, stop: threading.Event) -> None:
    progress, done = Progress(manifest.size), _Sum()
    progress.fields(0)
    pending = [file.name for file in reversed(manifest.files)]
    readers = [
        threading.Thread(target=_read_some, args=(folder, pending, done, stop), daemon=True)
        for _ in range(min(_READERS, len(pending)))
    ]
    for reader in readers:
        reader.start()
    has_ended = False
    while not has_ended and not stop.is_set():
        has_ended = _end_within(_SAY_SECONDS, readers)
        say("INFO", f"read {_gib(done.value)} of weights ahead", **progress.fields(done.value))


def _end_within(seconds: float, readers: "Sequence[threading.Thread]") -> bool:
    limit = time.monotonic() + seconds
    for reader in readers:
        reader.join(max(0.0, limit - time.monotonic()))
    return not any(reader.is_alive() for reader in readers)


class _Sum:
    """A sum that several threads add to."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, amount: int) -> None:
        """Add an amount."""
        with self._lock:
            self.value += amount


def _read_some(folder: Path, pending: "list[str]", done: _Sum, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            name = pending.pop()
        except IndexError:
            return
        try:
            with (folder / name).open("rb", buffering=0) as file:
                while not stop.is_set() and (chunk := file.read(_CHUNK)):
                    done.add(len(chunk))
        except OSError as error:
            say("WARNING", f"cannot read {name} ahead: {error}")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
