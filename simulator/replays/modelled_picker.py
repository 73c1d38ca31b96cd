"""A model of the endpoint picker's scorers, without the program, for replays.

It follows the source of gateway-api-inference-extension v1.5.0
(pkg/epp/framework/plugins). It is used to decide what to measure; reported figures come
from the real picker.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import yaml

from simulator.engine.compiled import PickerSettings
from simulator.engine.core import EngineCore
from simulator.engine.replay import TraceRequest
from simulator.engine.stepped import Arriving

BlockName = tuple[str, ...]
SCORERS = (
    "queue-scorer",
    "kv-cache-utilization-scorer",
    "lora-affinity-scorer",
    "prefix-cache-scorer",
)
"""Types of the scorers that are modeled."""
_PREFIX_PRODUCER = "approx-prefix-cache-producer"


@dataclass
class Seen:
    """A picker's state of a replica, as of its last look."""

    waiting: int = 0
    usage: float = 0.0
    running_adapters: frozenset[str] = frozenset()
    waiting_adapters: frozenset[str] = frozenset()
    max_adapters: int = 0
    block_size: int = 16
    blocks: int = 0

    @classmethod
    def of(cls, engine: EngineCore) -> "Seen":
        """Return the current state from an engine's metrics."""
        scheduler, deployment = engine.scheduler, engine.deployment
        lora = deployment.flags.enable_lora
        return cls(
            waiting=len(scheduler.waiting),
            usage=scheduler.cache.usage,
            running_adapters=frozenset(scheduler.adapters_running if lora else ()),
            waiting_adapters=frozenset(scheduler.adapters_waiting if lora else ()),
            max_adapters=deployment.flags.max_loras or 1 if lora else 0,
            block_size=deployment.block_size,
            blocks=deployment.kv_blocks,
        )

    @classmethod
    def idle(cls, engine: EngineCore) -> "Seen":
        """Return the state of an engine before its metrics are read."""
        deployment = engine.deployment
        return cls(block_size=deployment.block_size, blocks=deployment.kv_blocks)


@dataclass
class PrefixIndex:
    """The prefix scorer's memory: LRU of prompt blocks sent to each replica."""

    parameters: Mapping[str, Any]
    _of: dict[int, OrderedDict[BlockName, None]] = field(
        default_factory=dict[int, "OrderedDict[BlockName, None]"]
    )
    _own: Iterator[int] = field(default_factory=count)

    def blocks(self, request: TraceRequest, first: Seen) -> list[BlockName]:
        """Return keys of a prompt's blocks, which are equal for equal prefixes."""
        size = int(self.parameters.get("blockSizeTokens", 16))
        if self.parameters.get("autoTune", True) and first.block_size:
            size = first.block_size
        most = int(self.parameters.get("maxPrefixBlocksToMatch", 256))
        whole = min(request.prompt_tokens // size, most)
        shared = min(request.prefix_tokens // size, whole)
        head = (request.adapter or "", request.group)
        own = (
            *head,
            str(request.prefix_tokens),
            request.question if request.question is not None else f"own {next(self._own)}",
        )
        return [
            (*(head if number < shared else own), str(number), str(size)) for number in range(whole)
        ]

    def scores(self, blocks: Sequence[BlockName], replicas: Sequence[int]) -> list[float]:
        """Return the fraction of the blocks that each replica is believed to hold."""
        if not blocks:
            return [0.0] * len(replicas)
        matched = [0] * len(replicas)
        for one in blocks:
            holders = [n for n, each in enumerate(replicas) if one in self._of.get(each, ())]
            if not holders:
                break
            for number in holders:
                matched[number] += 1
        return [count / len(blocks) for count in matched]

    def add(self, blocks: Sequence[BlockName], number: int, seen: Seen) -> None:
        """Record that a prompt went to a replica."""
        most = int(self.parameters.get("lruCapacityPerServer", 31250))
        if self.parameters.get("autoTune", True) and seen.blocks:
            most = seen.blocks
        kept = self._of.setdefault(number, OrderedDict())
        for one in blocks:
            kept[one] = None
            kept.move_to_end(one)
        while len(kept) > most:
            kept.popitem(last=False)


class ModelledPicker:
    """The scoring of the endpoint picker v1.5.0, as a route of a replay.

    Args:
        config: EndpointPickerConfig, YAML.
        seed: seed for breaking ties.
    """

    def __init__(self, config: str, seed: int = 0) -> None:
        document: dict[str, Any] = yaml.safe_load(config)
        plugins: dict[str, dict[str, Any]] = {
            plugin.get("name", plugin["type"]): plugin for plugin in document["plugins"]
        }
        self._scorers: list[tuple[str, int]] = []
        self._weighted = False
        self._seed = seed
        found = [plugin for plugin in plugins.values() if plugin["type"] == _PREFIX_PRODUCER]
        self._index = PrefixIndex(found[0].get("parameters", {}) if found else {})
        self._seen: list[Seen] = []
        for entry in document["schedulingProfiles"][0]["plugins"]:
            plugin = plugins[entry["pluginRef"]]
            kind: str = plugin["type"]
            if kind == "weighted-random-picker":
                self._weighted = True
            elif kind.endswith("-scorer"):
                self._scorers.append((kind, int(entry.get("weight", 1))))
        self._choose = random.Random(seed)  # noqa: S311  # ties, not secrets

    @property
    def settings(self) -> PickerSettings:
        """The same picker for the compiled engines.

        Raises:
            ValueError: a scorer is not modeled.
        """
        for kind, _ in self._scorers:
            if kind not in SCORERS:
                raise ValueError(f"scorer must be one of {', '.join(SCORERS)}, got {kind!r}")
        parameters = self._index.parameters
        return PickerSettings(
            scorers=tuple(kind for kind, _ in self._scorers),
            weights=tuple(float(weight) for _, weight in self._scorers),
            is_weighted=self._weighted,
            is_tuned=bool(parameters.get("autoTune", True)),
            block_size=int(parameters.get("blockSizeTokens", 16)),
            most_blocks=int(parameters.get("maxPrefixBlocksToMatch", 256)),
            most_entries=int(parameters.get("lruCapacityPerServer", 31250)),
            seed=self._seed,
        )

    def look(self, engines: Sequence[EngineCore]) -> None:
        """Read the engines' metrics."""
        self._seen = [Seen.of(engine) for engine in engines]

    def __call__(self, request: TraceRequest, engines: Sequence[EngineCore]) -> int:
        """Return the replica for a request, from the state at the last look."""
        return self.pick(request, self._seen or [Seen.of(engine) for engine in engines])

    def pick(
        self,
        request: TraceRequest,
        seen: Sequence[Seen],
        replicas: Sequence[int] | None = None,
    ) -> int:
        """Return the index of the replica for a request.

        Args:
            request: the request.
            seen: what the last look saw of each replica.
            replicas: their numbers, by which the picker remembers prompts; by default, the index.
        """
        numbers = range(len(seen)) if replicas is None else replicas
        blocks = self._index.blocks(request, seen[0])
        total = [0.0] * len(seen)
        for kind, weight in self._scorers:
            for index, score in enumerate(self._score(kind, request, seen, blocks, numbers)):
                total[index] += weight * score
        if self._weighted and any(total):
            chosen = self._choose.choices(range(len(seen)), weights=total)[0]
        else:
            best = max(total)
            chosen = self._choose.choice([n for n, s in enumerate(total) if s == best])
        self._index.add(blocks, numbers[chosen], seen[chosen])
        return chosen

    def _score(
        self,
        kind: str,
        request: TraceRequest,
        seen: Sequence[Seen],
        blocks: Sequence[BlockName],
        replicas: Sequence[int],
    ) -> list[float]:
        if kind == "queue-scorer":
            least, most = min(s.waiting for s in seen), max(s.waiting for s in seen)
            if least == most:
                return [1.0] * len(seen)
            return [(most - s.waiting) / (most - least) for s in seen]
        if kind == "kv-cache-utilization-scorer":
            return [1.0 - s.usage for s in seen]
        if kind == "lora-affinity-scorer":
            return [_lora(request.adapter or "", s) for s in seen]
        if kind == "prefix-cache-scorer":
            return self._index.scores(blocks, replicas)
        raise ValueError(f"scorer must be one of {', '.join(SCORERS)}, got {kind!r}")


class PickerRoute:
    """The modelled picker of a pool whose replicas come and go: a `stepped.PoolRoute`.

    Args:
        config: EndpointPickerConfig, YAML.
        seed: seed for breaking ties.
    """

    def __init__(self, config: str, seed: int = 0) -> None:
        self._picker = ModelledPicker(config, seed)
        self._seen: dict[int, Seen] = {}

    def look(self, replicas: Sequence[int], engines: Sequence[EngineCore]) -> None:
        """Read the engines' metrics."""
        self._seen = {n: Seen.of(engine) for n, engine in zip(replicas, engines, strict=True)}

    def pick(
        self, request: Arriving, replicas: Sequence[int], engines: Sequence[EngineCore]
    ) -> int:
        """Return the replica for a request; of one added since the last look, none waits."""
        seen = [
            self._seen.get(number) or Seen.idle(engine)
            for number, engine in zip(replicas, engines, strict=True)
        ]
        prompt, is_shared = request.prompt_tokens, request.prefix >= 0
        asked = TraceRequest(
            0.0,
            prompt,
            1,
            group=str(request.prefix) if is_shared else "",
            prefix_tokens=min(request.prefix_tokens, prompt) if is_shared else 0,
        )
        return self._picker.pick(asked, seen, replicas)


def _lora(model: str, seen: Seen) -> float:
    if model in seen.running_adapters:
        return 1.0
    if len(seen.running_adapters) + len(seen.waiting_adapters) < seen.max_adapters:
        return 0.8
    return 0.6 if model in seen.waiting_adapters else 0.0
