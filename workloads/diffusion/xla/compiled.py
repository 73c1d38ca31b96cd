"""Where programs come from: compiled when the image was built, XLA's cache, or the compiler.

A program made ahead of time belongs to one release of JAX and libtpu and to one kind of chip; all
three are in the name of its folder, so another release finds nothing and compiles.
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

from .programs import Key, Programs


def release(chip: str) -> str:
    """Return what a compiled program depends on, as the name of a folder."""
    versions = [f"jax{jax.__version__}"]
    if chip != "cpu":
        versions.append(f"libtpu{metadata.version('libtpu')}")
    return "-".join([chip.replace(" ", "_"), *versions])


def file_of(folder: Path, programs: Programs, key: Key, chip: str) -> Path:
    """Return where a program of a model is kept: its shapes are part of the name."""
    shapes = jax.tree.map(lambda value: (value.shape, str(value.dtype)), programs.shapes(key))
    digest = sha256(repr(sorted_tree(shapes)).encode()).hexdigest()[:12]
    return folder / release(chip) / f"{key.name}-{digest}.xla"


def sorted_tree(shapes: Any) -> str:
    """Return a tree of shapes as text that does not depend on the order of its keys."""
    leaves, _ = jax.tree.flatten_with_path(shapes)
    return "\n".join(f"{jax.tree_util.keystr(path)} {leaf}" for path, leaf in leaves)


def lowered(programs: Programs, key: Key, sharding: Any = None) -> Any:
    """Return a program that is not compiled yet, for this device or that of the sharding."""
    given = programs.shapes(key, sharding)
    return jax.jit(programs.function(key)).lower(*given)


def store(file: Path, program: Any) -> None:
    """Keep a compiled program in a file; a reader sees all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".part")
    with partial.open("wb") as stream:
        pickle.dump(serialize_executable.serialize(program), stream)
    partial.replace(file)


class Compiled:
    """The programs of one process.

    Args:
        programs: What is compiled.
        ahead: Folder of programs made ahead of time; empty: none.
        cache: Folder of XLA's own cache; empty: none.
    """

    def __init__(self, programs: Programs, ahead: str, cache: str) -> None:
        self._programs = programs
        self._ahead = Path(ahead) if ahead else None
        self._got: dict[Key, Callable[..., Any]] = {}
        self._origins: Counter[str] = Counter()
        if cache:
            jax.config.update("jax_compilation_cache_dir", cache)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

    def get(self, key: Key, say: Callable[[str], None] | None = None) -> Callable[..., Any]:
        """Return a program, compiled at the latest now."""
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
        """Return how many programs were read ready-made and how many compiled."""
        return dict(self._origins)

    def _read(self, key: Key) -> Callable[..., Any] | None:
        if self._ahead is None:
            return None
        file = file_of(self._ahead, self._programs, key, jax.devices()[0].device_kind)
        if not file.exists():
            return None
        with file.open("rb") as stream:
            return serialize_executable.deserialize_and_load(*pickle.load(stream))  # noqa: S301 - of our own image
