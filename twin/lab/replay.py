"""A replay without programs: the picker's scorers as a model, to look through many settings.

The engines are the laboratory's; the picker is written after the source of
gateway-api-inference-extension v1.2.0 (pkg/epp/scheduling/framework/plugins). It finds what is
worth measuring: figures that are reported come from the real picker.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from twin.engines.vllm import text
from twin.engines.vllm.core import EngineCore
from twin.engines.vllm.request import Request
from twin.lab.lockstep import SCRAPE_SECONDS
from twin.traffic import Ask, Outcome, Record, Report, Trace

_CHARACTERS_PER_TOKEN = 4


@dataclass
class Seen:
    """What a picker knows of a replica: as of its last look."""

    waiting: int = 0
    usage: float = 0.0
    running_adapters: frozenset[str] = frozenset()
    waiting_adapters: frozenset[str] = frozenset()
    max_adapters: int = 0
    block_size: int = 16
    blocks: int = 0


@dataclass
class PrefixIndex:
    """The prefix scorer's memory: block hashes it has sent to each replica, LRU."""

    parameters: Mapping[str, Any]
    _of: dict[int, OrderedDict[int, None]] = field(
        default_factory=dict[int, "OrderedDict[int, None]"]
    )

    def hashes(self, ask: Ask, first: Seen) -> list[int]:
        """Return the chained hashes of a prompt's blocks."""
        size = int(self.parameters.get("blockSize", 64))
        if self.parameters.get("autoTune", True) and first.block_size:
            size = first.block_size * _CHARACTERS_PER_TOKEN
        most = int(self.parameters.get("maxPrefixBlocksToMatch", 256)) * size
        prompt = ask.prompt.text[:most]
        found: list[int] = []
        before = hash(ask.model)
        for start in range(0, len(prompt) - size + 1, size):
            before = hash((before, prompt[start : start + size]))
            found.append(before)
        return found

    def scores(self, hashes: Sequence[int], replicas: int) -> list[float]:
        """Return the part of the blocks that each replica is believed to hold."""
        if not hashes:
            return [0.0] * replicas
        matched = [0] * replicas
        for one in hashes:
            holders = [n for n in range(replicas) if one in self._of.get(n, ())]
            if not holders:
                break
            for number in holders:
                matched[number] += 1
        return [count / len(hashes) for count in matched]

    def add(self, hashes: Sequence[int], number: int, seen: Seen) -> None:
        """Remember that a prompt went to a replica."""
        most = int(self.parameters.get("lruCapacityPerServer", 31250))
        if self.parameters.get("autoTune", True) and seen.blocks:
            most = seen.blocks
        kept = self._of.setdefault(number, OrderedDict())
        for one in hashes:
            kept[one] = None
            kept.move_to_end(one)
        while len(kept) > most:
            kept.popitem(last=False)


class ModelledPicker:
    """The endpoint picker of v1.2.0, as far as scores go.

    Args:
        config: EndpointPickerConfig, YAML.
        seed: of its ties.
    """

    def __init__(self, config: str, seed: int = 0) -> None:
        document: dict[str, Any] = yaml.safe_load(config)
        plugins: dict[str, dict[str, Any]] = {
            plugin.get("name", plugin["type"]): plugin for plugin in document["plugins"]
        }
        self._scorers: list[tuple[str, int]] = []
        self._weighted = False
        self._index = PrefixIndex({})
        for entry in document["schedulingProfiles"][0]["plugins"]:
            plugin = plugins[entry["pluginRef"]]
            kind: str = plugin["type"]
            if kind == "weighted-random-picker":
                self._weighted = True
            elif kind.endswith("-scorer"):
                self._scorers.append((kind, int(entry.get("weight", 1))))
                if kind == "prefix-cache-scorer":
                    self._index = PrefixIndex(plugin.get("parameters", {}))
        self._choose = random.Random(seed)  # noqa: S311  # ties, not secrets

    def pick(self, ask: Ask, seen: Sequence[Seen]) -> int:
        """Return the replica for a request."""
        hashes = self._index.hashes(ask, seen[0])
        total = [0.0] * len(seen)
        for kind, weight in self._scorers:
            for number, score in enumerate(self._score(kind, ask, seen, hashes)):
                total[number] += weight * score
        if self._weighted and any(total):
            chosen = self._choose.choices(range(len(seen)), weights=total)[0]
        else:
            best = max(total)
            chosen = self._choose.choice([n for n, s in enumerate(total) if s == best])
        self._index.add(hashes, chosen, seen[chosen])
        return chosen

    def _score(
        self, kind: str, ask: Ask, seen: Sequence[Seen], hashes: Sequence[int]
    ) -> list[float]:
        if kind == "queue-scorer":
            least, most = min(s.waiting for s in seen), max(s.waiting for s in seen)
            if least == most:
                return [1.0] * len(seen)
            return [(most - s.waiting) / (most - least) for s in seen]
        if kind == "kv-cache-utilization-scorer":
            return [1.0 - s.usage for s in seen]
        if kind == "lora-affinity-scorer":
            return [_lora(ask.model, s) for s in seen]
        if kind == "prefix-cache-scorer":
            return self._index.scores(hashes, len(seen))
        raise ValueError(f"scorer must be one of the picker's, got {kind!r}")


def _lora(model: str, seen: Seen) -> float:
    if model in seen.running_adapters:
        return 1.0
    if len(seen.running_adapters) + len(seen.waiting_adapters) < seen.max_adapters:
        return 0.8
    return 0.6 if model in seen.waiting_adapters else 0.0


Picker = Callable[[Ask, Sequence[Seen]], int]


class Replay:
    """Engines without servers, and somebody who chooses among them.

    Args:
        cores: the engines.
        pick: chooses the replica of a request from what was seen at the last look.
        base_model: name that is no adapter.
    """

    def __init__(self, cores: Sequence[EngineCore], pick: Picker, base_model: str) -> None:
        self._cores = cores
        self._pick = pick
        self._base = base_model
        self._seen = [Seen() for _ in cores]
        self._tick = -1
        self._now = 0.0

    def run(self, trace: Trace) -> Report:
        """Replay a trace and return what became of each request."""
        start = self._now
        sent: list[tuple[Ask, Request, int]] = []
        for number, ask in enumerate(trace.asks):
            self._look(start + ask.at)
            chosen = self._pick(ask, self._seen)
            request = Request(
                id=str(number),
                prompt=text.tokenize(ask.prompt.text),
                max_tokens=ask.output_tokens,
                arrival=start + ask.at,
                adapter=None if ask.model == self._base else ask.model,
                output=(1,) * ask.output_tokens,
                block_salt=0 if ask.model == self._base else hash(ask.model),
                tell_at=1,
            )
            self._cores[chosen].submit(request, start + ask.at)
            sent.append((ask, request, chosen))
        end = start + trace.seconds
        for core in self._cores:
            while (moment := core.next_event()) is not None:
                core.advance(moment)
                core.news()
                end = max(end, moment)
        self._now = end
        return Report(tuple(_record(n, a, r, c, start) for n, (a, r, c) in enumerate(sent)))

    def _look(self, moment: float) -> None:
        tick = int(moment / SCRAPE_SECONDS)
        if tick <= self._tick:
            return
        self._tick = tick
        for number, core in enumerate(self._cores):
            core.advance(max(self._now, tick * SCRAPE_SECONDS))
            core.news()
            scheduler, deployment = core.scheduler, core.deployment
            lora = deployment.flags.enable_lora
            self._seen[number] = Seen(
                waiting=len(scheduler.waiting),
                usage=scheduler.cache.usage,
                running_adapters=frozenset(scheduler.adapters_running if lora else ()),
                waiting_adapters=frozenset(scheduler.adapters_waiting if lora else ()),
                max_adapters=deployment.flags.max_loras or 1 if lora else 0,
                block_size=deployment.block_size,
                blocks=deployment.kv_blocks,
            )


def _record(number: int, ask: Ask, request: Request, replica: int, start: float) -> Record:
    first = None if request.first_token is None else request.first_token - start
    last = None if request.last_token is None else request.last_token - start
    return Record(
        number, Outcome.ANSWERED, ask.at, ask.at, last or ask.at, first, last, request.generated,
        len(request.prompt), 200, replica=f"replica-{replica}", group=ask.group,
    )  # fmt: skip
