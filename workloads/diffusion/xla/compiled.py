"""Sources of programs: files compiled with the image, XLA's cache, or the compiler.

A program compiled ahead of time is for one release of JAX and libtpu and one kind of chip. All
three are in the name of its folder, so another release finds no program and compiles.
"""

import pickle
import time
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from .family import Compilable
from .keys import Key


def release(chip: str) -> str:
    """Return the name of the folder for programs of this release and chip."""
    versions = [f"jax{jax.__version__}"]
    if chip != "cpu":
        versions.append(f"libtpu{metadata.version('libtpu')}")
    return "-".join([chip.replace(" ", "_"), *versions])


def file_of(folder: Path, programs: Compilable, key: Key, chip: str) -> Path:
    """Return the file of a program of a model; its shapes and dimensions are part of the name."""
    shapes = jax.tree.map(lambda value: (value.shape, str(value.dtype)), programs.shapes(key))
    of = f"{sorted_tree(shapes)!r} {programs.geometry}"
    digest = sha256(of.encode()).hexdigest()[:12]
    return folder / release(chip) / f"{key.name}-{digest}.xla"


def sorted_tree(shapes: Any) -> str:
    """Return a tree of shapes as text that does not depend on the order of its keys."""
    leaves, _ = jax.tree.flatten_with_path(shapes)
    return "\n".join(f"{jax.tree_util.keystr(path)} {leaf}" for path, leaf in leaves)


def lowered(programs: Compilable, key: Key, sharding: Any = None) -> Any:
    """Return an uncompiled program, for this device or that of the sharding."""
    given = programs.shapes(key, sharding)
    return jax.jit(programs.function(key)).lower(*given)


def store(file: Path, program: Any) -> None:
    """Write a compiled program to a file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".part")
    with partial.open("wb") as stream:
        pickle.dump(serialize_executable.serialize(program), stream)
    partial.replace(file)


class Compiled:
    """The programs of one process.

    Args:
        programs: Family to compile.
        ahead: Folder of programs compiled ahead of time; empty: none.
        cache: Folder of XLA's own cache; empty: none.
    """

    def __init__(self, programs: Compilable, ahead: str, cache: str) -> None:
        self._programs = programs
        self._ahead = Path(ahead) if ahead else None
        self._got: dict[Key, Callable[..., Any]] = {}
        self._origins: Counter[str] = Counter()
        if cache:
            jax.config.update("jax_compilation_cache_dir", cache)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

    def get(self, key: Key, say: Callable[[str], None] | None = None) -> Callable[..., Any]:
        """Return a compiled program; compile it if necessary."""
        if key not in self._got:
            begun = time.monotonic()
            program = self._read(key)
            origin = "read" if program is not None else "compiled"
            self._got[key] = program or lowered(self._programs, key).compile()
            self._origins[origin] += 1
            if say is not None:
                say(f"{origin} {key.name} in {time.monotonic() - begun:.1f} s")
        return self._got[key]

    def counts(self) -> dict[str, int]:
        """Return the number of programs that were loaded and that were compiled."""
        return dict(self._origins)

    def _read(self, key: Key) -> Callable[..., Any] | None:
        if self._ahead is None:
            return None
        file = file_of(self._ahead, self._programs, key, jax.devices()[0].device_kind)
        if not file.exists():
            return None
        with file.open("rb") as stream:
            return serialize_executable.deserialize_and_load(*pickle.load(stream))  # noqa: S301 - of our own image
