"""Engines in a compiled program: the same times per request as in Python, many times as fast.

`EngineCore` is the reference; a property test holds both equal. `supports` says what is compiled:
engines without priorities, tiers of KV cache, pipeline stages, expert parallelism and speculative
decoding. The program is built with the twin's tools (`gke-inference tools --only
replayer`), and arrays go to it and back through pipes.
"""

import contextlib
import json
import math
import os
import struct
import subprocess
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from planner.fit.chips import SHARED_READ_COST
from planner.speed.mixtures import adapter_factor
from planner.speed.roofline import LEAST_TILE_TOKENS, MOST_TILE_TOKENS, CostModel
from simulator.engine.adapters import AdapterSlots
from simulator.engine.core import cost_model
from simulator.engine.kv_cache import PrefixStats
from simulator.engine.kv_tiers import has_tiers
from simulator.engine.replay import LOOK_SECONDS, Outcome, Replay, TraceRequest
from simulator.engine.settings import Deployment
from simulator.engine.stepped import (
    Engines,
    Finished,
    LeastRequest,
    Load,
    Membership,
    ReferenceEngines,
    Requests,
    RoundRobin,
)
from twin.toolchain.cache import is_cached
from twin.toolchain.find import tool
from twin.toolchain.registry import module_of

PROGRAM = "replayer"
ROUTES = ("round-robin", "least-request", "random", "two-choices", "session-affine")
_UNBOUNDED = 2**31 - 1
_NONE = -1
_T = TypeVar("_T", np.int32, np.int64, np.float64)


@dataclass(frozen=True)
class PickerSettings:
    """The endpoint picker of a pool, as `modelled_picker.ModelledPicker` models it."""

    scorers: tuple[str, ...]
    """Types of the scorers, in the order of the configuration."""
    weights: tuple[float, ...]
    is_weighted: bool
    """Whether the picker draws a replica by its score, instead of taking the best one."""
    is_tuned: bool
    """Whether block size and capacity are those of the engines."""
    block_size: int
    most_blocks: int
    most_entries: int
    """Blocks that it remembers of a replica."""
    seed: int
    queue_limit: float = 0.0
    """Waiting requests from which a replica gets no more, while another has fewer; 0: no limit."""
    usage_limit: float = 0.0
    """The same for the fraction of its KV cache in use."""
    look_seconds: float = LOOK_SECONDS
    """Interval at which it reads its replicas' metrics."""


def is_built() -> bool:
    """Return whether the program is there."""
    return is_cached(module_of(PROGRAM))


def supports(deployment: Deployment) -> bool:
    """Return whether the program has the rules of an engine."""
    flags = deployment.flags
    return not (
        deployment.experts
        or deployment.speculation
        or (flags.pipeline_parallel_size or 1) > 1
        or flags.scheduling_policy == "priority"
        or has_tiers(flags)
    )


class CompiledEngines:
    """`stepped.Engines` in the compiled program.

    Args:
        kinds: deployments of the kinds of replicas, which `supports` accepts.
        route: one of `ROUTES`, or the settings of a picker.
        refuses: whether engines refuse what exceeds their longest context.
        seed: seed of a random route.
        has_adapters: whether requests can have LoRA adapters: see `settle`.

    Raises:
        ToolError: the program is not built.
    """

    def __init__(
        self,
        kinds: Sequence[Deployment],
        route: str | PickerSettings = ROUTES[0],
        *,
        refuses: bool = True,
        seed: int = 0,
        has_adapters: bool = False,
    ) -> None:
        self._has_adapters = has_adapters
        self._members = Membership(len(kinds))
        self._process = subprocess.Popen(
            [tool(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "GOGC": "400"},
        )
        self.close = weakref.finalize(self, _end, self._process)
        """End the program; it also ends with the last reference to the engines."""
        is_picked = isinstance(route, PickerSettings)
        settings = {
            "kinds": [_kind(each, refuses=refuses) for each in kinds],
            "route": "picker" if is_picked else route,
            "picker": asdict(route) if is_picked else {},
            "seed": seed,
            "has_adapters": has_adapters,
        }
        self._write(json.dumps(settings).encode() + b"\n")

    @property
    def now(self) -> float:
        """The present time, in seconds since the start."""
        return self._members.now

    def add(self, kind: int, at: float) -> int:
        """Add a replica: see `Engines`."""
        number = self._members.add(kind, at)
        self._write(b"a", struct.pack("<q", kind))
        return number

    def serve(self, pool: int, replicas: Sequence[int]) -> None:
        """Set the replicas of a pool: see `Engines`."""
        self._members.serve(pool, replicas)
        members = np.array(replicas, np.int64)
        self._write(b"s", struct.pack("<qq", pool, len(members)), members)

    def drain(self, replica: int, at: float) -> None:
        """Drain a replica: see `Engines`."""
        self._members.leave(replica, at)
        self._write(b"d", struct.pack("<qd", replica, at))

    def kill(self, replica: int, at: float) -> NDArray[np.int64]:
        """Remove a replica: see `Engines`."""
        self._members.leave(replica, at)
        self._write(b"k", struct.pack("<qd", replica, at))
        return self._read(np.int64, self._count())

    def cancel(self, numbers: NDArray[np.int64], at: float) -> None:
        """Abort requests: see `Engines`."""
        self._members.go_to(at)
        self._write(b"x", struct.pack("<qd", len(numbers), at), np.asarray(numbers, np.int64))

    def advance(self, requests: Requests, until: float) -> None:
        """Compute all engines up to a time: see `Engines`."""
        self.advance_with(requests, until, np.full(len(requests.number), _NONE, np.int64))

    def settle(
        self, requests: Requests, question: NDArray[np.int64], adapter: NDArray[np.int64]
    ) -> None:
        """Compute all engines until they are idle; time is then that of the last token.

        Args:
            requests: see `Engines`.
            question: see `advance_with`.
            adapter: see `advance_with`.
        """
        begun = self.now
        self.advance_with(requests, math.inf, question, adapter)
        self._write(b"e")
        self._members.now = max(begun, float(self._read(np.float64, 1)[0]))

    def advance_with(
        self,
        requests: Requests,
        until: float,
        question: NDArray[np.int64],
        adapter: NDArray[np.int64] | None = None,
    ) -> None:
        """Compute all engines up to a time, with requests whose prompts are equal.

        Args:
            requests: see `Engines`; the prefix of a request with a question is within its prompt.
            until: time in seconds.
            question: number of the prompt; -1 for one that no other request has. Prefixes have
                other numbers.
            adapter: number of the LoRA adapter, in the order of their names; -1 for the base model.
        """
        if adapter is None:
            adapter = np.full(len(requests.number), _NONE, np.int64)
        last = (np.asarray(adapter, np.int32),) if self._has_adapters else ()
        self._members.advance(requests, until)
        self._write(
            b"r", struct.pack("<qd", len(requests.number), until),
            *(np.asarray(each, np.int64) for each in (requests.number,)),
            np.asarray(requests.seconds, np.float64),
            np.asarray(requests.prefix, np.int64),
            np.asarray(question, np.int64),
            *(
                np.asarray(each, np.int32)
                for each in (
                    requests.pool, requests.prompt_tokens, requests.output_tokens,
                    requests.prefix_tokens,
                )
            ),
            *last,
        )  # fmt: skip

    def finished(self) -> Finished:
        """Return the requests that ended: see `Engines`."""
        self._write(b"f")
        count = self._count()
        numbers, replicas = self._read(np.int64, count), self._read(np.int64, count)
        first, last = self._read(np.float64, count), self._read(np.float64, count)
        whole = [self._read(np.int32, count).astype(np.int64) for _ in range(3)]
        return Finished(numbers, replicas, first, last, *whole)

    def load(self) -> Load:
        """Return the load of each replica: see `Engines`."""
        self._write(b"l")
        count = self._count()
        numbers, running, waiting = (self._read(np.int64, count) for _ in range(3))
        usage = self._read(np.float64, count)
        return Load(numbers, running, waiting, usage, self._read(np.int64, count))

    def prefix_stats(self) -> PrefixStats:
        """Return the counters of all prefix caches."""
        self._write(b"c")
        _steps, queries, hits = (int(each) for each in self._read(np.int64, 3))
        return PrefixStats(queries, hits)

    def peak_mib(self) -> int:
        """Return the most memory that the program has had, where the kernel is Linux."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    def _write(self, *parts: bytes | NDArray[Any]) -> None:
        stream = cast("IO[bytes]", self._process.stdin)
        try:
            for part in parts:
                stream.write(part if isinstance(part, bytes) else part.tobytes())
            stream.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _count(self) -> int:
        return int(self._read(np.int64, 1)[0])

    def _read(self, kind: type[_T], count: int) -> NDArray[_T]:
        size = count * np.dtype(kind).itemsize
        found = cast("IO[bytes]", self._process.stdout).read(size)
        if len(found) < size:
            raise self._ended()
        return np.frombuffer(found, kind)

    def _ended(self) -> RuntimeError:
        self._process.wait()
        errors = cast("IO[bytes]", self._process.stderr).read()
        reason = errors.decode(errors="replace").strip()
        return RuntimeError(f"{PROGRAM} ended with {self._process.returncode}: {reason[:400]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the program's input, at which it ends."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    process.wait()


def engines(kinds: Sequence[Deployment], route: str) -> Engines:
    """Return engines: compiled ones where the program is built and has their rules.

    Args:
        kinds: deployments of the kinds of replicas.
        route: one of `ROUTES`.
    """
    if is_built() and all(supports(each) for each in kinds):
        return CompiledEngines(kinds, route)
    return ReferenceEngines(
        kinds, {"round-robin": RoundRobin, "least-request": LeastRequest}[route]
    )


class CompiledCluster:
    """Compiled replicas that run traces one after another and keep their caches.

    It gives what `replay.Cluster` gives, for replicas of several kinds and requests with adapters.

    Args:
        deployments: one per replica, which `supports` accepts; all start with empty caches.
        route: one of `ROUTES`, or the settings of a picker.
        http_seconds: time of the API server, which each first token and each answer has.
        seed: seed of a random route.

    Raises:
        ToolError: the program is not built.
    """

    def __init__(
        self,
        deployments: Sequence[Deployment],
        route: str | PickerSettings,
        http_seconds: float = 0.0,
        seed: int = 0,
    ) -> None:
        kinds: list[Deployment] = []
        for each in deployments:
            if not any(each is kind for kind in kinds):
                kinds.append(each)
        adapters = sorted({name for each in kinds for name in each.adapters})
        self._names = _Names({name: number for number, name in enumerate(adapters)})
        self._http = http_seconds
        self.engines = CompiledEngines(
            kinds, route, refuses=False, seed=seed, has_adapters=bool(adapters)
        )
        places = [next(n for n, kind in enumerate(kinds) if kind is each) for each in deployments]
        self.engines.serve(0, [self.engines.add(place, 0.0) for place in places])

    @property
    def now(self) -> float:
        """Seconds since the start of the first trace."""
        return self.engines.now

    def close(self) -> None:
        """End the program."""
        self.engines.close()

    def play(self, trace: Iterable[TraceRequest]) -> Replay:
        """Compute the outcomes of a trace that starts now; `now` is then its end.

        Raises:
            ValueError: a request has a priority, which is not compiled, or an unknown adapter.
        """
        ordered = sorted(trace, key=lambda each: each.arrival)
        begun, before = self.now, self.engines.prefix_stats()
        requests, question, adapter = self._names.columns(ordered, begun)
        self.engines.settle(requests, question, adapter)
        outcomes = outcomes_of(ordered, self.engines.finished(), begun, self._http)
        return Replay(outcomes, [], self.stats_since(before))

    def advance(
        self, trace: Sequence[TraceRequest], first: int, begun: float, until: float
    ) -> Finished:
        """Send requests, compute all replicas up to a time, and return the requests that ended.

        Args:
            trace: requests in the order of arrival, in seconds after `begun`.
            first: number of the first one.
            begun: start of the trace.
            until: time in seconds.
        """
        requests, question, adapter = self._names.columns(trace, begun)
        requests = replace(requests, number=requests.number + first)
        self.engines.advance_with(requests, until, question, adapter)
        return self.engines.finished()

    def stats_since(self, before: PrefixStats) -> PrefixStats:
        """Return what the counters of the prefix caches counted since."""
        now = self.engines.prefix_stats()
        return PrefixStats(now.queries - before.queries, now.hits - before.hits)


def replay(
    trace: Sequence[TraceRequest],
    deployment: Deployment,
    replicas: int,
    route: str | PickerSettings,
    http_seconds: float = 0.0,
    seed: int = 0,
) -> Replay:
    """Compute the outcomes of a trace on equal replicas with empty caches: see `CompiledCluster`.

    Raises:
        ValueError: a request has a priority, which is not compiled, or an unknown adapter.
        ToolError: the program is not built.
    """
    cluster = CompiledCluster([deployment] * replicas, route, http_seconds, seed)
    try:
        return cluster.play(trace)
    finally:
        cluster.close()


def outcomes_of(
    trace: Sequence[TraceRequest], ended: Finished, begun: float, http_seconds: float
) -> list[Outcome]:
    """Return the outcomes of requests, whose numbers are their places in the trace.

    Args:
        trace: requests, whose times of arrival are seconds after `begun`.
        ended: those that ended.
        begun: time at which the trace started.
        http_seconds: time of the API server.
    """
    found: list[Outcome | None] = [None] * len(trace)
    rows = zip(
        ended.number.tolist(), ended.replica.tolist(), ended.first_token_seconds.tolist(),
        ended.last_token_seconds.tolist(), ended.generated.tolist(),
        ended.cached_tokens.tolist(), ended.preemptions.tolist(), strict=True,
    )  # fmt: skip
    for number, replica, first, last, generated, cached, preemptions in rows:
        request = trace[int(number)]
        arrived = begun + request.arrival
        found[int(number)] = Outcome(
            request=request,
            replica=replica,
            ttft=first - arrived + http_seconds,
            tpot=(last - first) / (generated - 1) if generated > 1 else None,
            e2e=last - arrived + http_seconds,
            cached_tokens=cached,
            loaded_tokens=0,
            preemptions=preemptions,
        )
    never = (Outcome(each, _NONE, None, None, None, 0, 0, 0) for each in trace)
    return [one or other for one, other in zip(found, never, strict=True)]


class _Names:
    """Numbers of prefixes, prompts and adapters, the same in each trace of a cluster.

    Args:
        adapters: numbers of the adapters, in the order of their names.
    """

    def __init__(self, adapters: Mapping[str, int]) -> None:
        self._adapters = adapters
        self._names: dict[object, int] = {}

    def _number(self, name: object) -> int:
        return self._names.setdefault(name, len(self._names))

    def _adapter(self, name: str | None) -> int:
        if name is None:
            return _NONE
        if name not in self._adapters:
            rule = "must be one that the engine has at its start"
            raise ValueError(f"adapter: {rule} ({', '.join(self._adapters) or 'none'}), got {name}")
        return self._adapters[name]

    def columns(
        self, trace: Sequence[TraceRequest], begun: float = 0.0
    ) -> tuple[Requests, NDArray[np.int64], NDArray[np.int64]]:
        """Return requests in the order of arrival as arrays, their prompts and their adapters.

        Raises:
            ValueError: a request has a priority, which is not compiled, or an unknown adapter.
        """
        if any(each.priority for each in trace):
            raise ValueError("the compiled core has no priorities")
        prefix = [
            self._number((each.adapter, each.group)) if each.prefix_tokens else _NONE
            for each in trace
        ]
        question = [
            _NONE
            if each.question is None
            else self._number((each.adapter, each.group, each.prefix_tokens, each.question))
            for each in trace
        ]
        requests = Requests(
            np.arange(len(trace)),
            np.array([begun + each.arrival for each in trace], np.float64),
            np.zeros(len(trace), np.int64),
            np.array([each.prompt_tokens for each in trace], np.int64),
            np.array([each.output_tokens for each in trace], np.int64),
            np.array(prefix, np.int64),
            np.array([each.prefix_tokens for each in trace], np.int64),
        )
        adapter = np.array([self._adapter(each.adapter) for each in trace], np.int64)
        return requests, np.array(question, np.int64), adapter


def _kind(deployment: Deployment, *, refuses: bool) -> dict[str, Any]:
    """Return an engine's fixed settings: `Kind` of the program."""
    flags = deployment.flags
    return {
        "figures": _figures(deployment),
        "most_tokens": deployment.max_batched_tokens,
        "most_running": deployment.max_sequences,
        "block_size": deployment.block_size,
        "blocks": deployment.kv_blocks,
        "longest": deployment.max_model_len if refuses else _UNBOUNDED,
        "caches": flags.enable_prefix_caching is not False,
        "chunked": flags.enable_chunked_prefill is not False,
        "async": flags.async_scheduling is not False,
        "lora": _lora(deployment) if flags.enable_lora else None,
    }


def _lora(deployment: Deployment) -> dict[str, Any]:
    """Return the settings of an engine with LoRA adapters: `Lora` of the program."""
    slots = AdapterSlots(deployment)
    return {
        "slots": slots.slots,
        "host_slots": slots.host_slots,
        "device_seconds": slots.device_seconds * deployment.step_factor,
        "host_seconds": slots.host_seconds * deployment.step_factor,
        "factors": [adapter_factor(count) for count in range(slots.slots + 1)],
    }


def _figures(deployment: Deployment) -> dict[str, float | bool]:
    """Return the figures of an engine's cost model: `Figures` of the program."""
    cost: CostModel = cost_model(deployment)
    model, chip = cost.model, cost.accelerator
    reached = cost.reached
    pace = deployment.step_factor
    bandwidth = chip.bandwidth_gbps * 1e9 * cost.chips / pace
    slower = reached.mixture if model.is_mixture else 1.0
    return {
        "dense_flops": 2e9 * model.active_billion,
        "padded_flops": 2e9 * model.expert_billion if chip.kind == "gpu" else 0.0,
        "experts": max(model.experts, 1),
        "chosen": model.active_experts,
        "peak": cost.peak_flops * cost.chips * cost.prefill / slower / pace,
        "pair_flops": 4.0 * model.layers * (model.query_width or model.hidden),
        "attention_peak": chip.bf16_tflops * 1e12 * cost.chips * (reached.attention or 1) / pace,
        "bytes": 1e9 * model.bits / 8,
        "active": model.active_billion,
        "whole": model.parameters_billion - model.looked_up_billion,
        "expert": model.expert_billion,
        "bandwidth": bandwidth * reached.decode,
        "kv_bytes": cost.kv_bytes,
        "kv_bandwidth": bandwidth * (reached.kv or reached.decode),
        "fixed": (cost.fixed_seconds + cost.links.fixed) * pace,
        "link_token": cost.links.per_token * pace,
        "shared": SHARED_READ_COST,
        "is_separate": reached.attention is not None,
        "least_tile": LEAST_TILE_TOKENS,
        "most_tile": MOST_TILE_TOKENS,
    }
