"""The adapters that a chip keeps: loaded on first use, evicted by last use.

Several adapters of a request are one of their ranks together: `up_1(down_1(x)) + up_2(down_2(x))`
is one matrix of both `down` below each other, and one of both `up`, each times its weight.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ..adapters import Adapter, Weighted
from ..config import RANKS, Settings
from . import lora
from .formats import data_type
from .lora import Changes
from .modules import Weights


class Adaptable(Protocol):
    """The programs of a model that adapters can change."""

    def adapter(self, folder: Path) -> Changes:
        """Return the changes of an adapter's files.

        Raises:
            ValueError: It cannot be read, or changes more than the denoiser.
        """
        ...

    def low_rank(self, rank: int) -> Weights:
        """Return the shapes of the arrays of an adapter of a rank, by name."""
        ...


class Adapters:
    """The adapters of one process.

    Args:
        settings: Settings of the server.
        programs: Programs whose steps use them.
    """

    def __init__(self, settings: Settings, programs: Adaptable) -> None:
        self._settings = settings
        self._programs = programs
        self._kept: dict[str, tuple[Adapter, int, Weights]] = {}
        self._together: tuple[tuple[Weighted, ...], tuple[int, Weights]] | None = None
        self._most = RANKS[-1]

    def get(self, chosen: tuple[Weighted, ...]) -> tuple[int, Weights]:
        """Return rank and weights of adapters together; 0 and nothing without any.

        Raises:
            ValueError: An adapter cannot be read or does not fit, or they do not fit together.
        """
        if not chosen:
            return 0, {}
        if len(chosen) == 1 and chosen[0].weight == 1:
            return self._get(chosen[0].adapter)
        if self._together is None or self._together[0] != chosen:
            self._together = None  # its memory is free before there is another
            self._together = chosen, self._added(chosen)
        return self._together[1]

    def _added(self, chosen: Sequence[Weighted]) -> tuple[int, Weights]:
        """Return the sum of the changes of adapters, each times its weight."""
        parts = [self._get(each.adapter) for each in chosen]
        rank = parts[0][0]
        if len(parts) > 1:
            rank, ranks = self._most, sum(rank for rank, _ in parts)
            if ranks > rank:
                raise ValueError(f"adapters must have at most rank {rank} together, got {ranks}")
        found: Weights = {}
        for name in parts[0][1]:
            is_up = name.endswith(".lora_up")
            arrays = [
                weights[name] * jnp.asarray(each.weight, data_type()) if is_up else weights[name]
                for each, (_, weights) in zip(chosen, parts, strict=True)
            ]
            joined = jnp.concatenate(arrays, axis=int(is_up))
            room = rank - joined.shape[int(is_up)]
            found[name] = jnp.pad(joined, ((0, 0), (0, room)) if is_up else ((0, room), (0, 0)))
        return rank, found

    def _get(self, adapter: Adapter) -> tuple[int, Weights]:
        found = self._kept.pop(adapter.name, None)
        if found is None or found[0] != adapter:  # not there, or other files by now
            rank, read = self._read(adapter)  # one that cannot be read costs no other its place
            while len(self._kept) >= self._settings.adapter_slots:
                del self._kept[next(iter(self._kept))]
            # in their format on the host: JAX would compile a program for each shape
            weights = {
                key: jax.device_put(value.astype(data_type())) for key, value in read.items()
            }
            found = adapter, rank, weights
        self._kept[adapter.name] = found  # the one that was used last goes last
        return found[1:]

    def forget(self, name: str) -> None:
        """Unload an adapter that was removed."""
        self._kept.pop(name, None)
        used = () if self._together is None else self._together[0]
        if any(each.adapter.name == name for each in used):
            self._together = None

    def ranks(self, say: Callable[[str], None]) -> list[int]:
        """Return the ranks of programs. Report unreadable adapters, which are rejected later."""
        found: set[int] = set()
        for name, folder in self._settings.adapters.items():
            try:
                found.add(lora.rank_of(self._programs.adapter(Path(folder))))
            except (ValueError, OSError) as error:
                say(f"adapter {name}: {error}")
        ranks = self._settings.program_ranks(found)
        self._most = max(ranks, default=self._most)
        return ranks

    def _read(self, adapter: Adapter) -> tuple[int, dict[str, np.ndarray]]:
        """Return rank and arrays of an adapter, before they are on the device."""
        settings = self._settings
        try:
            changes = self._programs.adapter(Path(adapter.folder))
            rank = settings.live_program_rank if adapter.version else lora.rank_of(changes)
            most = settings.live_rank if adapter.version else rank
            return rank, lora.read_adapter(changes, self._programs.low_rank(rank), rank, most)
        except ValueError:
            raise
        except Exception as error:  # a file of a user must not end the process
            raise ValueError(f"adapter {adapter.name} cannot be read: {error}") from error
