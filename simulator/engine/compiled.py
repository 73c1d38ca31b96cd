"""Traces on a compiled engine: the same times per request as `replay`, many times as fast.

`EngineCore` is the reference; a property test holds both equal. `supports` says what is compiled:
one kind of replica without LoRA adapters, priorities, tiers of KV cache, pipeline stages, expert
parallelism and speculative decoding. The first call of an installation compiles the loops, which
takes half a minute, into the user's cache folder.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.fit.chips import SHARED_READ_COST
from planner.speed.roofline import LEAST_TILE_TOKENS, MOST_TILE_TOKENS, CostModel
from simulator.engine.core import cost_model
from simulator.engine.kv_cache import PrefixStats
from simulator.engine.kv_tiers import has_tiers
from simulator.engine.replay import Outcome, Replay, TraceRequest
from simulator.engine.settings import Deployment

ROUTES = {"round-robin": 0, "least-request": 1}
_MOST_NAMES = 100_000_000
"""Names of shared blocks times replicas, which are kept in one table."""
_NONE = -1


@dataclass(frozen=True)
class Columns:
    """A trace as arrays, in the order of arrival."""

    arrival: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    shared: NDArray[np.int64]
    """Columns: name of the first block of the prefix, its full blocks, and the name of the first
    block of a question that several requests have, or -1."""
    names: int
    """Names of shared blocks."""


@dataclass(frozen=True)
class Played:
    """Times of each request in seconds since the start of the trace, and counters by replica."""

    first_token: NDArray[np.float64]
    """NaN without one."""
    last_token: NDArray[np.float64]
    generated: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    replica: NDArray[np.int64]
    steps: NDArray[np.int64]
    prefix_queries: NDArray[np.int64]
    prefix_hits: NDArray[np.int64]


def supports(deployment: Deployment) -> bool:
    """Return whether the compiled core has the rules of an engine."""
    flags = deployment.flags
    return not (
        deployment.experts
        or deployment.speculation
        or deployment.pooling
        or (flags.pipeline_parallel_size or 1) > 1
        or flags.scheduling_policy == "priority"
        or has_tiers(flags)
    )


def columns(trace: Sequence[TraceRequest], block_size: int) -> Columns:
    """Return a trace as arrays.

    Raises:
        ValueError: a request has an adapter or a priority, which are not compiled.
    """
    ordered = sorted(trace, key=lambda each: each.arrival)
    prefixes: dict[str, int] = {}
    questions: dict[tuple[str, int, str], int] = {}
    for each in ordered:
        if each.adapter is not None or each.priority:
            raise ValueError("the compiled core has no adapters and no priorities")
        blocks = each.prefix_tokens // block_size
        prefixes[each.group] = max(prefixes.get(each.group, 0), blocks)
        if each.question is not None:
            key = (each.group, each.prefix_tokens, each.question)
            questions[key] = max(questions.get(key, 0), each.prompt_tokens // block_size)
    names = 0
    for table in (prefixes, questions):
        for key, blocks in table.items():
            table[key], names = names, names + blocks  # pyright: ignore[reportArgumentType]
    shared = np.full((len(ordered), 3), _NONE, np.int64)
    for row, each in zip(shared, ordered, strict=True):
        row[0], row[1] = prefixes[each.group], each.prefix_tokens // block_size
        if each.question is not None:
            row[2] = questions[each.group, each.prefix_tokens, each.question]
    return Columns(
        np.array([each.arrival for each in ordered]),
        np.array([each.prompt_tokens for each in ordered], np.int64),
        np.array([each.output_tokens for each in ordered], np.int64),
        shared,
        names,
    )


def play(trace: Columns, deployment: Deployment, replicas: int, route: str) -> Played:
    """Compute the times of a trace on equal replicas with empty caches.

    Args:
        trace: requests.
        deployment: an engine that `supports` accepts.
        replicas: number of replicas.
        route: one of `ROUTES`.

    Raises:
        ValueError: the trace shares more prefixes than the tables hold.
    """
    if trace.names * replicas > _MOST_NAMES:
        raise ValueError(
            f"shared blocks of a trace times replicas must be at most {_MOST_NAMES:,}, "
            f"got {trace.names * replicas:,}"
        )
    kernel = _kernel()
    flags, size, count = deployment.flags, deployment.block_size, len(trace.arrival)
    longest = int((trace.prompt + trace.output).max()) // size + 2
    running = min(deployment.max_sequences, count)
    blocks = deployment.kv_blocks
    limits = (
        deployment.max_batched_tokens,
        running,
        size,
        flags.enable_prefix_caching is not False,
        flags.enable_chunked_prefill is not False,
        flags.async_scheduling is not False,
    )

    def table(*shape: int, filled: int = 0) -> NDArray[np.int32]:
        return np.full((replicas, *shape), filled, np.int32)

    engines = np.zeros((replicas, kernel.E_COUNT), np.int64)
    for field in (kernel.E_FIRST, kernel.E_LAST, kernel.E_FREE_FIRST, kernel.E_FREE_LAST):
        engines[:, field] = _NONE
    engines[:, kernel.E_SLOTS] = running
    times = np.zeros((replicas, 2))
    times[:, 1] = -1.0
    slots = np.tile(np.arange(running), (replicas, 1))
    requests = np.zeros((count, 9), np.int64)
    requests[:, 4] = trace.prompt // size
    requests[:, 8] = _NONE
    first, last = np.full(count, np.nan), np.full(count, np.nan)
    replica = np.zeros(count, np.int64)
    kernel.play(
        trace.arrival, trace.prompt, trace.output, trace.shared, trace.names, longest,
        ROUTES[route], replicas, np.tile(_figures(deployment, kernel), (replicas, 1)), limits,
        engines, times, np.zeros((replicas, running), np.int64),
        np.full(count, _NONE, np.int64), table(blocks), table(blocks), table(blocks),
        np.full((replicas, blocks), _NONE, np.int64), table(trace.names, filled=_NONE),
        table(running, longest), table(running, longest, filled=_NONE), slots,
        np.zeros((replicas, running), np.int64), requests, first, last, replica,
    )  # fmt: skip
    return Played(
        first,
        last,
        requests[:, 1],
        requests[:, 6],
        requests[:, 5],
        replica,
        engines[:, kernel.E_STEPS],
        engines[:, kernel.E_QUERIES],
        engines[:, kernel.E_HITS],
    )


def replay(
    trace: Sequence[TraceRequest],
    deployment: Deployment,
    replicas: int,
    route: str,
    http_seconds: float = 0.0,
) -> Replay:
    """Compute the outcomes of a trace on equal replicas: see `play` and `replay.Cluster`."""
    ordered = sorted(trace, key=lambda each: each.arrival)
    played = play(columns(ordered, deployment.block_size), deployment, replicas, route)
    stats = PrefixStats(int(played.prefix_queries.sum()), int(played.prefix_hits.sum()))
    found = [_outcome(each, played, n, http_seconds) for n, each in enumerate(ordered)]
    return Replay(found, [], stats)


def _outcome(request: TraceRequest, played: Played, n: int, http: float) -> Outcome:
    first, last = float(played.first_token[n]), float(played.last_token[n])
    generated = int(played.generated[n])
    is_whole = generated == request.output_tokens
    return Outcome(
        request=request,
        replica=int(played.replica[n]),
        ttft=first - request.arrival + http if generated else None,
        tpot=(last - first) / (generated - 1) if generated > 1 else None,
        e2e=last - request.arrival + http if is_whole else None,
        cached_tokens=int(played.cached_tokens[n]),
        loaded_tokens=0,
        preemptions=int(played.preemptions[n]),
    )


def _kernel() -> Any:
    """Import the loops, compiled in the user's cache folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(base / "gke-inference" / "numba"))
    from simulator.engine import kernel  # noqa: PLC0415  # a second, only where a trace is played

    return kernel


def _figures(deployment: Deployment, kernel: Any) -> NDArray[np.float64]:
    """Return the figures of an engine's cost model."""
    cost: CostModel = cost_model(deployment)
    model, chip = cost.model, cost.accelerator
    reached = cost.reached
    bandwidth = chip.bandwidth_gbps * 1e9 * cost.chips
    slower = reached.mixture if model.is_mixture else 1.0
    found = np.zeros(kernel.C_COUNT)
    found[kernel.C_DENSE_FLOPS] = 2e9 * model.active_billion
    found[kernel.C_PADDED] = 2e9 * model.expert_billion if chip.kind == "gpu" else 0.0
    found[kernel.C_EXPERTS] = max(model.experts, 1)
    found[kernel.C_CHOSEN] = model.active_experts
    found[kernel.C_PEAK] = cost.peak_flops * cost.chips * cost.prefill / slower
    found[kernel.C_PAIR_FLOPS] = 4.0 * model.layers * (model.query_width or model.hidden)
    found[kernel.C_ATTENTION_PEAK] = chip.bf16_tflops * 1e12 * cost.chips * (reached.attention or 1)
    found[kernel.C_BYTES] = 1e9 * model.bits / 8
    found[kernel.C_ACTIVE] = model.active_billion
    found[kernel.C_WHOLE] = model.parameters_billion - model.looked_up_billion
    found[kernel.C_EXPERT] = model.expert_billion
    found[kernel.C_BANDWIDTH] = bandwidth * reached.decode
    found[kernel.C_KV_BYTES] = cost.kv_bytes
    found[kernel.C_KV_BANDWIDTH] = bandwidth * (reached.kv or reached.decode)
    found[kernel.C_FIXED] = cost.fixed_seconds + cost.links.fixed
    found[kernel.C_LINK_TOKEN] = cost.links.per_token
    found[kernel.C_SHARED] = SHARED_READ_COST
    found[kernel.C_IS_SEPARATE] = reached.attention is not None
    found[kernel.C_LEAST_TILE], found[kernel.C_MOST_TILE] = LEAST_TILE_TOKENS, MOST_TILE_TOKENS
    return found
