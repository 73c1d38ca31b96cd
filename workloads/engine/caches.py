"""Caches of an engine: compiled programs that persist, and room in folders with KV cache.

On TPU, the cache folder is a writable bucket mount. On GPU, the engine's caches consist of many
small files that are renamed and locked, for which a bucket mount is unsuitable. They are in a
folder of the pod, and one object in the bucket archives them. vLLM's guide also copies its cache
between machines (docs.vllm.ai design/torch_compile); programs are keyed by all their dependencies.

vLLM never deletes files of a tier of KV cache (0.32.0, v1/kv_offload/tiering/fs/manager.py), so a
launcher deletes those that were used least recently. vLLM reads a block without changing its
file, so the time of the last read is what the file system records: with `relatime`, once a day;
with `noatime`, never, and the time of the write remains. A block that is gone when the engine reads
it is computed again.
"""

import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from . import hardware
from .bucket import Bucket, BucketError
from .log import say
from .spec import Serving

ARCHIVE = "compiled.tar"
"""Name of the object with the archived cache."""

_MOST = 10_000  # listing a folder of a bucket uses the network
_MOST_BYTES = 4 * 2**30
_KEPT_SHARE = 0.9
"""Share of a full folder of KV cache that is kept, so that not every look deletes files."""
_LOOK_SECONDS = 5.0
_LOOK_SHARE = 0.1  # of the time may go into listing files, which uses the network on a share
_UNFINISHED_SECONDS = 3600
"""Age at which a block that is still being written belongs to an engine that has ended."""


def environment(serving: Serving) -> "dict[str, str]":
    """Return the variables that enable an engine's compile cache; the pod's own take precedence."""
    folder = serving.cache_folder
    if folder is None:
        return {}
    if serving.kind == "tpu":
        # tpu-inference reads the first, JAX the others. Small programs are also cached.
        names = {
            "VLLM_XLA_CACHE_PATH": folder,
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
    elif serving.engine == "vllm":
        names = {"VLLM_CACHE_ROOT": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
    else:
        names = {
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
    return {name: value for name, value in names.items() if name not in os.environ}


def entries(serving: Serving) -> "int | None":
    """Return the number of cached programs, at most 10,000; None without a cache."""
    if serving.cache_folder is None:
        return None
    found = _files(serving) if serving.cache_archive else _names(_folder(serving))
    return sum(1 for _ in islice(found, _MOST))


def fetch(serving: Serving) -> None:
    """Restore programs that earlier servers compiled; without them, the engine compiles."""
    if serving.cache_archive is None:
        return
    try:
        folder = _folder(serving)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile() as file:
            size = Bucket(serving.cache_archive).fetch(ARCHIVE, file)
            if size:
                file.seek(0)
                with tarfile.open(fileobj=file) as archive:
                    archive.extractall(folder, filter="data")
    except (BucketError, OSError, tarfile.TarError) as error:
        say("WARNING", f"compiled programs are not taken over: {error}")


def keep(serving: Serving, before: "int | None") -> None:
    """Archive the restored and newly compiled programs for later servers.

    If two servers start together, the last write wins. The other server's programs are archived at
    its next start.
    """
    if serving.cache_archive is None or entries(serving) == before:
        return
    try:
        folder = _folder(serving)
        files = sorted(_files(serving))
        size = sum(file.stat().st_size for file in files)
        if size > _MOST_BYTES:
            say("WARNING", f"compiled programs are not kept: {size} bytes, at most {_MOST_BYTES}")
            return
        with tempfile.TemporaryFile() as out:
            with tarfile.open(fileobj=out, mode="w") as archive:
                for file in files:
                    archive.add(file, str(file.relative_to(folder)), recursive=False)
            size = out.tell()
            out.seek(0)
            Bucket(serving.cache_archive).write(ARCHIVE, out, size)
        say("INFO", f"compiled programs are kept for the next start: {size} bytes", bytes=size)
    except (BucketError, OSError, tarfile.TarError) as error:
        say("WARNING", f"compiled programs are not kept: {error}")


def limit_folders(serving: Serving, stop: threading.Event) -> None:
    """Delete files of full folders with KV cache, until the launcher ends."""
    pause = _LOOK_SECONDS
    current = [hardware.root() / name.lstrip("/") for name in serving.kv_current]
    while serving.kv_folders and not stop.wait(pause):
        began = time.monotonic()
        for name, most_gib in sorted(serving.kv_folders.items()):
            count = shrink(hardware.root() / name.lstrip("/"), most_gib * 2**30, current)
            if count:
                say("INFO", f"KV cache in {name}: {count} files are deleted", files=count)
        pause = max(_LOOK_SECONDS, (time.monotonic() - began) / _LOOK_SHARE)


def shrink(folder: Path, max_bytes: int, current: "Sequence[Path]" = ()) -> int:
    """Delete the blocks of a full folder that were used least recently; return how many files.

    Blocks outside `current`, which are those of other releases and settings, go first. A block that
    was never finished is deleted after an hour, even if the folder is not full. Errors are logged,
    and the rest of the folder is still limited.
    """
    look = _Look(folder, current)
    now = time.time()
    sizes: dict[_Age, int] = {}
    size = 0
    for file in look.files():
        if file.is_unfinished and now - file.used > _UNFINISHED_SECONDS and look.delete(file):
            continue
        size += file.size
        if not file.is_unfinished:
            sizes[file.age] = sizes.get(file.age, 0) + file.size
    if size > max_bytes:
        _delete(look, sizes, size - int(max_bytes * _KEPT_SHARE))
    if look.failed:
        say("WARNING", f"KV cache in {folder}: {look.failed} errors, such as {look.error}")
    return look.deleted


def _delete(look: "_Look", sizes: "dict[_Age, int]", excess: int) -> None:
    """Delete as many bytes as there are too many.

    The files are listed a second time: a list of all of them would need gigabytes of memory.
    """
    last: _Age | None = None
    for age in sorted(sizes):
        last = age
        if sizes[age] >= excess:
            break
        excess -= sizes[age]
    if last is None:
        return
    for file in look.files():
        if file.is_unfinished or file.age > last or (file.age == last and excess <= 0):
            continue
        if look.delete(file) and file.age == last:
            excess -= file.size


_Age = tuple[bool, int]
"""Whether a block is current, and the minute in which it was last used."""


@dataclass(frozen=True)
class _File:
    path: str
    size: int
    used: float
    """Time of the last read that the file system recorded, or of the write."""
    is_current: bool

    @property
    def age(self) -> "_Age":
        return self.is_current, int(self.used // 60)

    @property
    def is_unfinished(self) -> bool:
        """Whether the engine was writing it, under the name of its block and `_NUMBER.tmp`."""
        return self.path.endswith(".tmp")


class _Look:
    """A look at a folder of KV cache, which other replicas also write to and delete from."""

    def __init__(self, folder: Path, current: "Sequence[Path]") -> None:
        self._folder = str(folder)
        self._current = tuple(f"{path}/" for path in current)
        self.deleted = 0
        self.failed = 0
        self.error = ""

    def files(self) -> "Iterator[_File]":
        """Yield the blocks, finished or not."""
        folders = [self._folder]
        while folders:
            path = folders.pop()
            is_current = not self._current or f"{path}/".startswith(self._current)
            try:
                with os.scandir(path) as listed:
                    entries = list(listed)
            except OSError as error:
                self._note(error)
                continue
            for entry in entries:
                try:
                    if entry.name.endswith((".bin", ".tmp")):
                        yield self._file(entry, is_current)
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                except OSError as error:
                    self._note(error)

    def delete(self, file: _File) -> bool:
        """Delete a file; return whether it is gone."""
        try:
            os.unlink(file.path)
            self.deleted += 1
        except FileNotFoundError:
            return True  # another replica was faster
        except OSError as error:
            self._note(error)
            return False
        if not file.is_current:
            self._prune(os.path.dirname(file.path))
        return True

    def _prune(self, path: str) -> None:
        """Remove empty folders that no engine of the current settings writes to."""
        try:
            while path.startswith(f"{self._folder}/"):
                os.rmdir(path)
                path = os.path.dirname(path)
        except OSError:
            return  # it has files

    def _file(self, entry: "os.DirEntry[str]", is_current: bool) -> _File:
        state = entry.stat(follow_symlinks=False)
        used = max(state.st_atime, state.st_mtime)
        return _File(entry.path, state.st_size, used, is_current)

    def _note(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return  # another replica was faster
        self.failed += 1
        self.error = str(error)


def _folder(serving: Serving) -> Path:
    return hardware.root() / str(serving.cache_folder).lstrip("/")


def _files(serving: Serving) -> "Iterator[Path]":
    found = _folder(serving).rglob("*")
    return (path for path in found if path.is_file() and not path.is_symlink())


def _names(folder: Path) -> "Iterator[str]":
    try:
        return iter(os.listdir(folder))
    except OSError:
        return iter(())
