"""Engines of a platform: compiled ones for the pools that they support, Python for the others."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.engine import compiled
from simulator.engine.stepped import Engines, Finished, Load, Requests
from simulator.rehearsal.description import Platform
from simulator.replays.picker_configs import Facts, shipped
from simulator.replays.planning import picked_engines

_CONFIG = shipped(Facts())
"""The endpoint picker's configuration of a pool."""


def engines_of(platform: Platform) -> Engines:
    """Return the engines of a platform, whose pools are behind the modeled endpoint picker."""
    slow = {at for at, each in enumerate(platform.engines) if not compiled.supports(each)}
    if not slow or len(slow) == len(platform.engines):
        return picked_engines(platform.engines, _CONFIG)
    pools = list(dict.fromkeys((each.pool, each.region) for each in platform.workloads))
    parts = [0] * len(pools)
    for workload in platform.workloads:
        if any(hardware.engine in slow for hardware in workload.hardware.values()):
            parts[pools.index((workload.pool, workload.region))] = 1
    kinds = [0] * len(platform.engines)
    for workload in platform.workloads:
        part = parts[pools.index((workload.pool, workload.region))]
        for hardware in workload.hardware.values():
            kinds[hardware.engine] = max(kinds[hardware.engine], part)
    # a kind in both parts would be in two programs
    for workload in platform.workloads:
        if any(kinds[hardware.engine] for hardware in workload.hardware.values()):
            parts[pools.index((workload.pool, workload.region))] = 1
    return Divided(platform, kinds, parts)


class Divided:
    """Engines in two parts, between which pools are divided.

    Args:
        platform: Platform with the engines.
        kinds: Part of each kind of engine.
        pools: Part of each pool.
    """

    def __init__(self, platform: Platform, kinds: Sequence[int], pools: Sequence[int]) -> None:
        self._kinds, self._pools = kinds, np.array(pools, np.int64)
        self._own = [[at for at, part in enumerate(kinds) if part == own] for own in (0, 1)]
        self._parts = [
            picked_engines([platform.engines[at] for at in own], _CONFIG) for own in self._own
        ]
        self._places: list[tuple[int, int]] = []
        """Part and number there of each replica."""
        self._numbers: list[list[int]] = [[], []]
        """Number of each replica of a part."""

    def add(self, kind: int, at: float) -> int:
        """Add a replica: see `Engines`."""
        part = self._kinds[kind]
        inner = self._parts[part].add(self._own[part].index(kind), at)
        number = len(self._places)
        self._places.append((part, inner))
        self._numbers[part].append(number)
        return number

    def serve(self, pool: int, replicas: Sequence[int]) -> None:
        """Set the replicas of a pool: see `Engines`."""
        part = self._parts[int(self._pools[pool])]
        part.serve(pool, [self._places[each][1] for each in replicas])

    def drain(self, replica: int, at: float) -> None:
        """Drain a replica: see `Engines`."""
        part, inner = self._places[replica]
        self._parts[part].drain(inner, at)

    def kill(self, replica: int, at: float) -> NDArray[np.int64]:
        """Remove a replica: see `Engines`."""
        part, inner = self._places[replica]
        return self._parts[part].kill(inner, at)

    def cancel(self, numbers: NDArray[np.int64], at: float) -> None:
        """Abort requests: see `Engines`."""
        for each in self._parts:
            each.cancel(numbers, at)

    def advance(self, requests: Requests, until: float) -> None:
        """Compute all engines up to a time: see `Engines`."""
        part_of = self._pools[requests.pool]
        for part, each in enumerate(self._parts):
            mine = part_of == part
            each.advance(
                Requests(
                    requests.number[mine], requests.seconds[mine], requests.pool[mine],
                    requests.prompt_tokens[mine], requests.output_tokens[mine],
                    requests.prefix[mine], requests.prefix_tokens[mine],
                ),
                until,
            )  # fmt: skip

    def finished(self) -> Finished:
        """Return the requests that ended: see `Engines`."""
        found = [each.finished() for each in self._parts]
        replica = np.concatenate(
            [
                np.array(self._numbers[part], np.int64)[each.replica]
                if len(each.replica)
                else each.replica
                for part, each in enumerate(found)
            ]
        )
        first, second = found
        return Finished(
            np.concatenate((first.number, second.number)),
            replica,
            np.concatenate((first.first_token_seconds, second.first_token_seconds)),
            np.concatenate((first.last_token_seconds, second.last_token_seconds)),
            np.concatenate((first.generated, second.generated)),
            np.concatenate((first.cached_tokens, second.cached_tokens)),
            np.concatenate((first.preemptions, second.preemptions)),
        )

    def load(self) -> Load:
        """Return the load of each replica: see `Engines`."""
        found = [each.load() for each in self._parts]
        replica = np.concatenate(
            [
                np.array(self._numbers[part], np.int64)[each.replica]
                if len(each.replica)
                else each.replica
                for part, each in enumerate(found)
            ]
        )
        order = np.argsort(replica)
        first, second = found
        return Load(
            replica[order],
            np.concatenate((first.running, second.running))[order],
            np.concatenate((first.waiting, second.waiting))[order],
            np.concatenate((first.kv_usage, second.kv_usage))[order],
            np.concatenate((first.waiting_tokens, second.waiting_tokens))[order],
        )
