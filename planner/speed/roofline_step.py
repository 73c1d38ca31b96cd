"""The steady state of an engine under load, for many candidates at once.

A load is reduced to one mean step: `sequences` decode, at a context of the prompt and half the
answer, while the same steps compute the prompts of the sequences that replace finished ones. A step
takes the longer of compute and memory time, plus collectives and a fixed time. The equations are
those of `roofline.CostModel`, on arrays. `correction` adjusts them to real engines.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gke_inference.sizing.memory import STEP_TOKENS, kv_copies, kv_token_bytes
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import (
    CHIPS_OF_A_HOST,
    COLLECTIVE_LATENCY_SECONDS,
    HOST_NETWORKS,
    Accelerator,
)
from planner.speed.mixtures import adapter_factor, read_billion

Array = NDArray[np.float64]

_PREFILL, _DECODE = 0.5, 0.65
_OVERHEAD = {"gpu": 0.003, "tpu": 0.001, "cpu": 0.003}
_EACH = {"gpu": 0.0, "tpu": 0.0001, "cpu": 0.0}
_MIXTURE = {"gpu": 2.5, "tpu": 3.0, "cpu": 2.5}
"""Round values in the middle of the range of the families in docs/reference/engine-model.md; the
correction is relative to them. The fixed time was chosen from 1, 2 and 3 ms, and the time per
sequence on TPU from 0 to 0.4 ms, by their errors on held-out points: vLLM serves Gemma 4 on one v6e
or v5e chip at 5 to 8 ms a step for 1 to 8 sequences, and 26 to 46 ms for 64, which neither compute
nor memory explains."""


@dataclass(frozen=True)
class Work:
    """Properties and load of candidates; each field is an array with one entry per candidate."""

    active: Array
    """Active parameters per token, in billions."""
    read: Array
    """Parameters that a large batch reads, in billions."""
    experts: Array
    """Routed experts of a layer; 0 if not known."""
    chosen: Array
    """Routed experts that a token passes through in each layer."""
    expert: Array
    """Parameters of one routed expert in all layers, in billions; 0 if not a known mixture."""
    layers: Array
    hidden: Array
    query_width: Array
    kv_bytes: Array
    """KV-cache bytes per token over all layers, including copies due to tensor parallelism."""
    window: Array
    """Maximum number of tokens that a windowed layer attends to."""
    windowed: Array
    """Fraction of layers that are windowed."""
    bits: Array
    mixture: Array
    """Factor by which compute is slower than for a dense model."""
    peak: Array
    """Operations per second of all chips of a replica."""
    bandwidth: Array
    """Memory bandwidth of all chips of a replica, in bytes per second."""
    link: Array
    """Bandwidth between chips, one way, in bytes per second."""
    latency: Array
    """Latency of a collective, in seconds."""
    chips: Array
    """Chips per stage, over which tensors are split."""
    stages: Array
    hop_seconds: Array
    """Latency of a message between stages, in seconds."""
    hop: Array
    """Bandwidth between stages, in bytes per second."""
    overhead: Array
    each: Array
    """Time per sequence of a step that neither compute nor memory explains, in seconds."""
    given: Array
    """Tokens per prompt that are computed."""
    cached: Array
    """Tokens per prompt that are in the prefix cache."""
    made: Array
    """Tokens per answer."""
    adapters: Array
    """Different LoRA adapters among the requests."""

    def take(self, index: Any) -> "Work":
        """Return a selection of candidates, by a NumPy index."""
        return Work(*(getattr(self, each.name)[index] for each in fields(self)))

    def column(self) -> "Work":
        """Return the candidates with a second axis for batches."""
        return Work(*(getattr(self, each.name)[:, None] for each in fields(self)))


@dataclass(frozen=True)
class Step:
    """Mean step and its parts, in seconds."""

    seconds: Array
    decode: Array
    """Duration of a step without prompts."""
    with_prompt: Array
    """Duration of a step that also computes prompts."""
    chunk: Array
    """Prompt tokens per step with prompts."""
    part: Array
    """Fraction of steps with prompts."""
    alone: "Parts"
    """Parts of a step without prompts."""
    mixed: "Parts"
    """Parts of a step that also computes prompts."""


@dataclass(frozen=True)
class Parts:
    """Parts of one step, in seconds. It takes the longer of compute and memory, plus the rest."""

    compute: Array
    """At the assumed fraction of peak."""
    memory: Array
    """At the assumed fraction of peak bandwidth."""
    links: Array
    """Collectives, and hops between stages."""
    fixed: Array
    """Time that no hardware explains: scheduling, launch and sampling."""

    @property
    def seconds(self) -> Array:
        """Duration of the step."""
        return np.maximum(self.compute, self.memory) + self.links + self.fixed


def work(
    shape: ModelShape,
    chip: Accelerator,
    *,
    tensor: int,
    stages: int = 1,
    network: str = "tcp",
    kv_bits: float = 16,
    given: float,
    made: float,
    prefix_share: float = 0.0,
    groups: int = 1,
    adapters: int = 0,
) -> Work:
    """Return the work of one candidate.

    Args:
        shape: Shape of the model at its serving precision.
        chip: Accelerator of all its chips.
        tensor: Chips over which a layer is split.
        stages: Number of pipeline stages.
        network: Network between the hosts of the stages: `rdma` or `tcp`.
        kv_bits: Bits of a KV-cache value.
        given: Tokens per prompt.
        made: Tokens per answer.
        prefix_share: Fraction of the prompt that is in the prefix cache.
        groups: Attention groups of an expert-parallel replica. Each has its own KV cache without
            copies.
        adapters: Different LoRA adapters among the requests.
    """
    sizes = _sizes(shape, kv_token_bytes(shape, kv_bits) * kv_copies(shape, tensor / groups))
    rates = (
        _MIXTURE[chip.kind] if shape.is_mixture else 1.0,
        peak_flops(chip, shape.bits) * tensor * stages,
        chip.bandwidth_gbps * 1e9 * tensor * stages,
        *_link(chip, tensor, groups, network),
        tensor,
        stages,
        HOST_NETWORKS[network].latency_seconds,
        HOST_NETWORKS[network].gbps * 1e9,
        _OVERHEAD[chip.kind],
        _EACH[chip.kind],
    )
    lengths = (given * (1 - prefix_share), given * prefix_share, made, adapters)
    return Work(*(np.array([float(value)]) for value in (*sizes, *rates, *lengths)))


def _link(chip: Accelerator, tensor: int, groups: int, network: str) -> tuple[float, float]:
    """Return bandwidth in bytes per second and latency of collectives.

    Expert parallelism over several hosts exchanges tokens over their network.
    """
    if groups > 1 and tensor > CHIPS_OF_A_HOST:
        hosts = HOST_NETWORKS[network]
        return hosts.gbps / CHIPS_OF_A_HOST * 1e9, hosts.latency_seconds
    return chip.link_gbps * 1e9, COLLECTIVE_LATENCY_SECONDS


def _sizes(shape: ModelShape, kv_bytes: float) -> tuple[float, ...]:
    """Return the fields of `Work` that describe the model, in their order."""
    window = shape.window
    return (
        shape.active_billion,
        shape.parameters_billion - shape.looked_up_billion,
        shape.experts,
        shape.active_experts,
        shape.expert_billion,
        shape.layers,
        shape.hidden,
        shape.query_width or shape.hidden,
        kv_bytes,
        window[0] if window else 1e12,
        min(1.0, window[1] / shape.layers) if window else 0.0,
        shape.bits,
    )


def peak_flops(chip: Accelerator, bits: int) -> float:
    """Return the operations per second of a chip at a precision of the weights."""
    peak = chip.bf16_tflops
    if bits == 8:
        peak = chip.fp8_tflops
    elif bits == 4:
        peak = chip.fp4_tflops or peak
    return peak * 1e12


def stack(parts: list[Work]) -> Work:
    """Return several candidates as one `Work`."""
    return Work(
        *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Work))
    )


def step(one: Work, sequences: Array) -> Step:
    """Return the mean step for a number of running sequences; shapes are broadcast."""
    count = np.maximum(1.0, sequences)
    needed = count * one.given / one.made
    chunk = np.minimum(np.maximum(one.given, needed), np.maximum(64.0, STEP_TOKENS - count))
    part = np.minimum(1.0, needed / chunk)
    length = one.given + one.cached + one.made / 2
    seen = (1 - one.windowed) * length + one.windowed * np.minimum(length, one.window)
    pairs = chunk * (one.cached + one.given / 2)
    fixed = one.overhead + count * one.each
    slower = adapter_factor(np.minimum(one.adapters, count))
    alone = Parts(
        _compute(one, count, count * seen) * slower,
        _memory(one, count, count * seen) * slower,
        _links(one, count),
        fixed,
    )
    both = count + chunk
    mixed = Parts(
        _compute(one, both, count * seen + pairs) * slower,
        _memory(one, both, count * seen + one.cached + one.given) * slower,
        _links(one, both),
        fixed,
    )
    seconds = (1 - part) * alone.seconds + part * mixed.seconds
    return Step(seconds, alone.seconds, mixed.seconds, chunk, part, alone, mixed)


def _compute(one: Work, tokens: Array, pairs: Array) -> Array:
    flops = 2e9 * one.active * tokens + 4.0 * one.layers * one.query_width * pairs
    return flops / one.peak / _PREFILL * one.mixture


def _memory(one: Work, tokens: Array, context: Array) -> Array:
    touched = read_billion(
        tokens,
        active=one.active,
        whole=one.read,
        experts=one.experts,
        chosen=one.chosen,
        expert=one.expert,
    )
    return (touched * 1e9 * one.bits / 8 + context * one.kv_bytes) / one.bandwidth / _DECODE


def _links(one: Work, tokens: Array) -> Array:
    hop = one.hop_seconds + tokens * one.hidden * 2 / one.hop
    moved = 2 * (one.chips - 1) / one.chips * tokens * one.hidden * 2
    each = one.latency + moved / one.link
    return (one.stages - 1) * hop + np.where(one.chips > 1, 2 * one.layers * each, 0.0)


def most_kept_busy(one: Work) -> Array:
    """Return the maximum number of busy sequences; more would need larger steps for prompts."""
    return STEP_TOKENS / (1 + one.given / one.made)


def at_lengths(one: Work, given: float, made: float) -> Work:
    """Return the same candidates with other lengths and no cached prefix."""
    alike = np.ones_like(one.given)
    return replace(one, given=alike * given, cached=alike * 0.0, made=alike * made)
