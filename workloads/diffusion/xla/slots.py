"""The adapters that a chip keeps: loaded on first use, evicted by last use."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ..adapters import Adapter
from ..config import Settings
from . import lora
from .family import Family
from .formats import data_type
from .keys import Key
from .modules import Weights


class Adapters:
    """The adapters of one process.

    Args:
        settings: Settings of the server.
        programs: Family whose steps use them.
    """

    def __init__(self, settings: Settings, programs: Family) -> None:
        self._settings = settings
        self._programs = programs
        self._kept: dict[str, tuple[Adapter, int, Weights]] = {}

    def get(self, adapter: Adapter | None) -> tuple[int, Weights]:
        """Return rank and weights of an adapter; 0 and nothing without one.

        Raises:
            ValueError: The adapter cannot be read, or does not fit.
        """
        if adapter is None:
            return 0, {}
        found = self._kept.pop(adapter.name, None)
        if found is None or found[0] != adapter:  # not there, or other files by now
            rank, read = self._read(adapter)  # one that cannot be read costs no other its place
            while len(self._kept) >= self._settings.adapter_slots:
                del self._kept[next(iter(self._kept))]
            weights = {key: jnp.asarray(value, data_type()) for key, value in read.items()}
            found = adapter, rank, weights
        self._kept[adapter.name] = found  # the one that was used last goes last
        return found[1:]

    def forget(self, name: str) -> None:
        """Unload an adapter that was removed."""
        self._kept.pop(name, None)

    def ranks(self, say: Callable[[str], None]) -> list[int]:
        """Return the ranks of the adapters. Report unreadable ones, which are rejected later."""
        found = {self._settings.live_program_rank} if self._settings.live_adapters else set[int]()
        for name, folder in self._settings.adapters.items():
            try:
                found.add(lora.rank_of(self._programs.adapter(Path(folder))))
            except (ValueError, OSError) as error:
                say(f"adapter {name}: {error}")
        return sorted(found)

    def _read(self, adapter: Adapter) -> tuple[int, dict[str, np.ndarray]]:
        """Return rank and arrays of an adapter, before they are on the device."""
        settings = self._settings
        try:
            changes = self._programs.adapter(Path(adapter.folder))
            rank = settings.live_program_rank if adapter.version else lora.rank_of(changes)
            most = settings.live_rank if adapter.version else rank
            wanted = self._programs.shapes(Key("step", 1, *settings.smallest, rank))[-1]
            return rank, lora.read_adapter(changes, wanted, rank, most)
        except ValueError:
            raise
        except Exception as error:  # a file of a user must not end the process
            raise ValueError(f"adapter {adapter.name} cannot be read: {error}") from error
