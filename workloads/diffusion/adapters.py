"""LoRA adapters that a request may name: those of the settings, and those of a live folder.

Each folder in the live folder with a `.safetensors` file is an adapter of that name. The server
checks the folder when a request names it, so a new adapter needs no restart, and a removed adapter
returns 404 immediately. Writers rename a finished folder into place, so partial adapters never
appear.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from .config import Settings

NAME = re.compile(r"[a-z0-9]([-._a-z0-9]{0,38}[a-z0-9])?")
"""Valid names of live adapters, restricted because a name is part of a path."""


@dataclass(frozen=True)
class Adapter:
    """An available adapter."""

    name: str
    folder: str
    version: str = ""
    """Changes with the files of a live adapter; empty for adapters of the settings."""


@dataclass(frozen=True)
class Weighted:
    """An adapter of a request, and how strongly it changes the model."""

    adapter: Adapter
    weight: float = 1.0
    """Factor of the adapter's change, as in `set_adapters` of diffusers."""


def find(settings: Settings, name: str) -> Adapter | None:
    """Return the adapter of a name, or None."""
    if name in settings.adapters:
        return Adapter(name, settings.adapters[name])
    if not settings.live_adapters or name in settings.bases or not NAME.fullmatch(name):
        return None
    folder = Path(settings.live_adapters, name)
    version = _version(folder)
    return Adapter(name, str(folder), version) if version else None


def names(settings: Settings) -> list[str]:
    """Return the names of all adapters."""
    found = set(settings.adapters)
    if settings.live_adapters:
        try:
            folders = sorted(entry.name for entry in Path(settings.live_adapters).iterdir())
        except OSError:  # nothing was ever written
            folders = []
        found |= {name for name in folders if find(settings, name) is not None}
    return sorted(found)


def _version(folder: Path) -> str:
    """Return names, sizes and times of the weights in a folder; empty if there are none."""
    try:
        files = sorted(folder.glob("*.safetensors"))
        states = [(file.name, file.stat()) for file in files]
    except OSError:  # removed in this moment
        return ""
    return ",".join(f"{name}:{state.st_size}:{state.st_mtime_ns}" for name, state in states)
