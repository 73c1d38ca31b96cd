"""Where compiled programs outlive a container, and whether a start found them.

On TPU the folder is a bucket that is mounted for writing. On GPU the engine's caches are many small
files, renamed and locked, which a mounted bucket does badly: they are in a folder of the pod, and
one object holds them all. vLLM's own guide copies its cache from machine to machine (docs.vllm.ai
design/torch_compile); programs are found there by everything that they depend on.
"""

import os
import tarfile
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from . import hardware
from .bucket import Bucket, BucketError
from .log import say
from .spec import Serving

ARCHIVE = "compiled.tar"
"""Name of the object."""

_MOST = 10_000  # a folder of a bucket is listed over the network
_MOST_BYTES = 4 * 2**30


def environment(serving: Serving) -> "dict[str, str]":
    """Return the variables that make an engine keep what it compiles; the pod's own come first."""
    folder = serving.cache_folder
    if folder is None:
        return {}
    if serving.kind == "tpu":
        # tpu-inference reads the first, JAX the others; small programs are kept, too.
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
    """Return how many programs are kept, at most 10,000; None where nothing is."""
    if serving.cache_folder is None:
        return None
    found = _files(serving) if serving.cache_archive else _names(_folder(serving))
    return sum(1 for _ in islice(found, _MOST))


def fetch(serving: Serving) -> None:
    """Bring what earlier servers compiled; one that finds nothing compiles."""
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
    """Keep what this server compiled, with what it found, for later ones.

    Two that start together write one after the other, and the last one's programs stay; the other's
    come again with its next start.
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
