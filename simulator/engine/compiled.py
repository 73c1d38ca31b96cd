"""Engines in a compiled program: the same times per request as in Python, many times as fast.

`EngineCore` is the reference; a property test holds both equal. `supports` says what is compiled:
engines without LoRA adapters, priorities, tiers of KV cache, pipeline stages, expert parallelism
and speculative decoding. The program is built with the twin's tools (`gke-inference tools --only
replayer`), and arrays go to it and back through pipes.
"""

import contextlib
import json
import math
import os
import struct
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.fit.chips import SHARED_READ_COST
from planner.speed.roofline import LEAST_TILE_TOKENS, MOST_TILE_TOKENS, CostModel
from simulator.engine.core import cost_model
from simulator.engine.kv_cache import PrefixStats
from simulator.engine.kv_tiers import has_tiers
from simulator.engine.replay import Outcome, Replay, TraceRequest
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
ROUTES = ("round-robin", "least-request")
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
        or flags.enable_lora
        or has_tiers(flags)
    )


class CompiledEngines:
    """`stepped.Engines` in the compiled program.

    Args:
        kinds: deployments of the kinds of replicas, which `supports` accepts.
        route: one of `ROUTES`, or the settings of a picker.
        refuses: whether engines refuse what exceeds their longest context.

    Raises:
        ToolError: the program is not built.
    """

    def __init__(
        self,
        kinds: Sequence[Deployment],
        route: str | PickerSettings = ROUTES[0],
        *,
        refuses: bool = True,
    ) -> None:
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
        }
        self._write(json.dumps(settings).encode() + b"\n")

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

    def advance_with(self, requests: Requests, until: float, question: NDArray[np.int64]) -> None:
        """Compute all engines up to a time, with requests whose prompts are equal.

        Args:
            requests: see `Engines`; the prefix of a request with a question is within its prompt.
            until: time in seconds.
            question: number of the prompt; -1 for one that no other request has. Prefixes have
                other numbers.
        """
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
        stream = self._process.stdin
        try:
            for part in parts:
                stream.write(part if isinstance(part, bytes) else part.tobytes())  # pyright: ignore[reportOptionalMemberAccess]  # a pipe
            stream.flush()  # pyright: ignore[reportOptionalMemberAccess]
        except BrokenPipeError:
            raise self._ended() from None

    def _count(self) -> int:
        return int(self._read(np.int64, 1)[0])

    def _read(self, kind: type[_T], count: int) -> NDArray[_T]:
        size = count * np.dtype(kind).itemsize
        found = self._process.stdout.read(size)  # pyright: ignore[reportOptionalMemberAccess]  # a pipe
        if len(found) < size:
            raise self._ended()
        return np.frombuffer(found, kind)

    def _ended(self) -> RuntimeError:
        self._process.wait()
        reason = self._process.stderr.read().decode(errors="replace").strip()  # pyright: ignore[reportOptionalMemberAccess]  # a pipe
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


def replay(
    trace: Sequence[TraceRequest],
    deployment: Deployment,
    replicas: int,
    route: str | PickerSettings,
    http_seconds: float = 0.0,
) -> Replay:
    """Compute the outcomes of a trace on equal replicas with empty caches: see `replay.Cluster`.

    Raises:
        ValueError: a request has an adapter or a priority, which are not compiled.
        ToolError: the program is not built.
    """
    ordered = sorted(trace, key=lambda each: each.arrival)
    made = CompiledEngines([deployment], route, refuses=False)
    try:
        made.serve(0, [made.add(0, 0.0) for _ in range(replicas)])
        requests, question = columns(ordered)
        made.advance_with(requests, math.inf, question)
        ended, stats = made.finished(), made.prefix_stats()
    finally:
        made.close()
    found: list[Outcome | None] = [None] * len(ordered)
    rows = zip(
        ended.number.tolist(), ended.replica.tolist(), ended.first_token_seconds.tolist(),
        ended.last_token_seconds.tolist(), ended.generated.tolist(),
        ended.cached_tokens.tolist(), ended.preemptions.tolist(), strict=True,
    )  # fmt: skip
    for number, replica, first, last, generated, cached, preemptions in rows:
        request = ordered[int(number)]
        found[int(number)] = Outcome(
            request=request,
            replica=replica,
            ttft=first - request.arrival + http_seconds,
            tpot=(last - first) / (generated - 1) if generated > 1 else None,
            e2e=last - request.arrival + http_seconds,
            cached_tokens=cached,
            loaded_tokens=0,
            preemptions=preemptions,
        )
    never = (Outcome(each, _NONE, None, None, None, 0, 0, 0) for each in ordered)
    return Replay([one or other for one, other in zip(found, never, strict=True)], [], stats)


def columns(trace: Sequence[TraceRequest]) -> tuple[Requests, NDArray[np.int64]]:
    """Return requests in the order of arrival as arrays, and the numbers of their prompts.

    Raises:
        ValueError: a request has an adapter or a priority, which are not compiled.
    """
    if any(each.adapter is not None or each.priority for each in trace):
        raise ValueError("the compiled core has no adapters and no priorities")
    names: dict[object, int] = {}
    prefix = [
        names.setdefault(each.group, len(names)) if each.prefix_tokens else _NONE for each in trace
    ]
    question = [
        _NONE
        if each.question is None
        else names.setdefault((each.group, each.prefix_tokens, each.question), len(names))
        for each in trace
    ]
    requests = Requests(
        np.arange(len(trace)),
        np.array([each.arrival for each in trace], np.float64),
        np.zeros(len(trace), np.int64),
        np.array([each.prompt_tokens for each in trace], np.int64),
        np.array([each.output_tokens for each in trace], np.int64),
        np.array(prefix, np.int64),
        np.array([each.prefix_tokens for each in trace], np.int64),
    )
    return requests, np.array(question, np.int64)


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
