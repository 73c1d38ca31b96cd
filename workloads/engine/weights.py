"""Waits until the weights are there, and says how far it is.

Only folders are waited for; what an engine streams from a bucket is its own to read.
"""

import json
import os
import threading
import time
from pathlib import Path

from . import hardware
from .log import say
from .spec import Serving

INDEX = "model.safetensors.index.json"
_SUFFIXES = (".safetensors", ".bin", ".gguf", ".plan", ".engine", ".pt")
_SAY_SECONDS = 10.0
_POLL_SECONDS = 1.0
_READERS = 8
_CHUNK = 8 * 2**20


class WeightsError(Exception):
    """Weights that never came; the message has the folder and what was missing."""


def wait(serving: Serving, seconds: float, stop: threading.Event) -> int:
    """Wait for a folder to hold a whole model and return its bytes; 0 where it is streamed.

    Raises:
        WeightsError: It does not within `seconds`.
    """
    if "://" in serving.source:
        return 0
    folder = hardware.root() / serving.source.lstrip("/")
    limit = time.monotonic() + seconds
    said = 0.0
    progress = Progress(serving.weights_bytes)
    while not stop.is_set():
        have, missing = look(folder)
        if not missing:
            say("INFO", f"weights are there: {_gib(have)}", bytes=have, folder=serving.source)
            return have
        now = time.monotonic()
        if now >= limit:
            raise WeightsError(
                f"weights: must be in {serving.source} within {seconds:.0f} s, missing {missing}"
            )
        if now - said >= _SAY_SECONDS:
            said = now
            fields = progress.fields(have)
            say("INFO", f"waiting for weights: {missing} is missing", **fields)
        stop.wait(_POLL_SECONDS)
    return 0


def look(folder: Path) -> "tuple[int, str]":
    """Return the bytes of the weights in a folder and the first thing that is missing, or ''."""
    try:
        sizes = _sizes(folder)
    except OSError:
        return 0, "the folder"
    named = _named(folder / INDEX)
    have = sum(size for name, size in sizes.items() if name.endswith(_SUFFIXES))
    if named is None:
        return have, "" if have or _is_repository(folder) else "every weight file"
    for name in sorted(named):
        if sizes.get(name, 0) == 0:
            return have, name
    return have, ""


class Progress:
    """Bytes, rate and what remains, for a log line."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._first: tuple[float, int] | None = None

    def fields(self, have: int) -> "dict[str, float | int | None]":
        """Return the fields of a line: rate in bytes a second, time left in seconds."""
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


def read_ahead(serving: Serving, stop: threading.Event) -> "threading.Thread | None":
    """Read a mounted model once, with several readers, so that the mount's cache is filled.

    An engine opens its files one after the other; a bucket gives more to many readers. It runs
    beside the engine's start and ends by itself.
    """
    if "://" in serving.source or not serving.read_ahead:
        return None
    folder = hardware.root() / serving.source.lstrip("/")
    thread = threading.Thread(target=_read_all, args=(folder, serving, stop), daemon=True)
    thread.start()
    return thread


def _read_all(folder: Path, serving: Serving, stop: threading.Event) -> None:
    try:
        names = [name for name in _sizes(folder) if name.endswith(_SUFFIXES)]
    except OSError:
        return
    progress, done = Progress(serving.weights_bytes), _Sum()
    progress.fields(0)
    pending = sorted(names, reverse=True)
    readers = [
        threading.Thread(target=_read_some, args=(folder, pending, done, stop), daemon=True)
        for _ in range(min(_READERS, len(pending)))
    ]
    for reader in readers:
        reader.start()
    while any(reader.is_alive() for reader in readers):
        stop.wait(_SAY_SECONDS) if stop.is_set() else readers[0].join(_SAY_SECONDS)
        readers = [reader for reader in readers if reader.is_alive()]
        say("INFO", f"read {_gib(done.value)} of weights ahead", **progress.fields(done.value))
        if stop.is_set():
            return


class _Sum:
    """A number that several threads add to."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, amount: int) -> None:
        """Add."""
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


def _sizes(folder: Path) -> "dict[str, int]":
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}


def _named(index: Path) -> "set[str] | None":
    """Return the files that a model in parts says it has; None for a model in one part."""
    try:
        return set(json.loads(index.read_text())["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _is_repository(folder: Path) -> bool:
    """Say whether the folder holds other folders with something in them, as Triton's does."""
    for entry in folder.iterdir():
        try:
            if entry.is_dir() and any(entry.iterdir()):
                return True
        except OSError:  # such as a disk's lost+found, which is root's
            continue
    return False


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
