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
    "running-requests-size-scorer",
    "kv-cache-utilization-scorer",
    "lora-affinity-scorer",
    "prefix-cache-scorer",
)
"""Types of the scorers that are modeled."""
_PREFIX_PRODUCER = "approx-prefix-cache-producer"
_DETECTOR = "utilization-detector"


@dataclass
class Seen:
    """A picker's state of a replica, as of its last look."""

    waiting: int = 0
    running: int = 0
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
            running=len(scheduler.running),
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


@dataclass(frozen=True)
class Limits:
    """The limits of a `utilization-detector` in a profile, from which a replica is left out."""

    waiting: float
    usage: float

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "Limits":
        """Return the limits of a plugin; those not given are upstream's defaults."""
        more = 1 + float(parameters.get("headroom", 0.0))
        return cls(
            float(parameters.get("queueDepthThreshold", 5)) * more,
            float(parameters.get("kvCacheUtilThreshold", 0.8)) * more,
        )

    def keep(self, seen: Sequence[Seen]) -> list[int]:
        """Return the indices of the replicas below the limits; all if there is none."""
        found = [
            index
            for index, each in enumerate(seen)
            if each.waiting < self.waiting and each.usage < self.usage
        ]
        return found or list(range(len(seen)))


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
        self._limits: Limits | None = None
        self._seed = seed
        found = [plugin for plugin in plugins.values() if plugin["type"] == _PREFIX_PRODUCER]
        self._index = PrefixIndex(found[0].get("parameters", {}) if found else {})
        self._seen: list[Seen] = []
        for entry in document["schedulingProfiles"][0]["plugins"]:
            plugin = plugins[entry["pluginRef"]]
            kind: str = plugin["type"]
            if kind == "weighted-random-picker":
                self._weighted = True
            elif kind == _DETECTOR:  # in a profile, a filter
                self._limits = Limits.of(plugin.get("parameters", {}))
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
            queue_limit=self._limits.waiting if self._limits else 0.0,
            usage_limit=self._limits.usage if self._limits else 0.0,
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
        blocks = self.blocks(request, seen)
        total = self.scores(request, seen, numbers, blocks)
        kept = list(total)
        if self._weighted and any(total.values()):
            chosen = self._choose.choices(kept, weights=list(total.values()))[0]
        else:
            best = max(total.values())
            chosen = self._choose.choice([n for n in kept if total[n] == best])
        self.remember(blocks, numbers[chosen], seen[chosen])
        return chosen

    def blocks(self, request: TraceRequest, seen: Sequence[Seen]) -> list[BlockName]:
        """Return keys of a prompt's blocks, which are equal for equal prefixes."""
        return self._index.blocks(request, seen[0])

    def scores(
        self,
        request: TraceRequest,
        seen: Sequence[Seen],
        replicas: Sequence[int],
        blocks: Sequence[BlockName],
    ) -> dict[int, float]:
        """Return the score of each replica that the filter keeps, by index: see `pick`."""
        kept = list(range(len(seen))) if self._limits is None else self._limits.keep(seen)
        some = [seen[index] for index in kept]
        prefixes = dict(enumerate(self._index.scores(blocks, replicas)))
        total = dict.fromkeys(kept, 0.0)
        for kind, weight in self._scorers:
            found = self._score(kind, request, some, [prefixes[index] for index in kept])
            for index, score in zip(kept, found, strict=True):
                total[index] += weight * score
        return total

    def remember(self, blocks: Sequence[BlockName], replica: int, seen: Seen) -> None:
        """Record that a prompt went to a replica."""
        self._index.add(blocks, replica, seen)

    def _score(
        self,
        kind: str,
        request: TraceRequest,
        seen: Sequence[Seen],
        prefixes: list[float],
    ) -> list[float]:
        if kind == "queue-scorer":
            return _fewest([each.waiting for each in seen])
        if kind == "running-requests-size-scorer":
            return _fewest([each.running for each in seen])
        if kind == "kv-cache-utilization-scorer":
            return [1.0 - s.usage for s in seen]
        if kind == "lora-affinity-scorer":
            return [_lora(request.adapter or "", s) for s in seen]
        if kind == "prefix-cache-scorer":
            return prefixes
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


def _fewest(counts: Sequence[int]) -> list[float]:
    """Return 1 for the least count, 0 for the most, and between them in proportion."""
    least, most = min(counts), max(counts)
    if least == most:
        return [1.0] * len(counts)
    return [(most - each) / (most - least) for each in counts]


def _lora(model: str, seen: Seen) -> float:
    if model in seen.running_adapters:
        return 1.0
    if len(seen.running_adapters) + len(seen.waiting_adapters) < seen.max_adapters:
        return 0.8
    return 0.6 if model in seen.waiting_adapters else 0.0
