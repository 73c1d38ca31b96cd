"""The steady state of an engine under load, for many candidates at once.

A load is reduced to one mean step: `sequences` decode, at a context of the prompt and half the
answer, while the prompts of those that take the place of finished ones are computed in the same
steps. A step takes the longer of computing and of reading memory, plus collectives and a fixed
time. The same equations as `roofline.CostModel`, on arrays; what a real engine makes of them is
`correction`'s to say.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gke_inference.sizing.memory import STEP_TOKENS, kv_copies, kv_token_bytes
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import (
    COLLECTIVE_LATENCY_SECONDS,
    NETWORK_GBPS,
    NETWORK_LATENCY_SECONDS,
    Accelerator,
)

Array = NDArray[np.float64]

_PREFILL, _DECODE = 0.5, 0.65
_OVERHEAD = 0.003
_MIXTURE = {"gpu": 2.5, "tpu": 3.0, "cpu": 2.5}
"""Round figures in the middle of what the families of docs/reference/engine-model.md reach; the
correction is relative to them. The fixed time is the one of 1, 2, 3, 4 and 6 ms with which points
of models left out came out nearly best."""


@dataclass(frozen=True)
class Work:
    """What candidates are and have to do; each field an array with an entry a candidate."""

    active: Array
    """Parameters that a token passes through, in billions."""
    read: Array
    """Parameters that a large batch reads, in billions."""
    layers: Array
    hidden: Array
    query_width: Array
    kv_bytes: Array
    """Of a token over all layers, with the copies that tensor parallelism makes."""
    window: Array
    """Tokens that a windowed layer attends to at most."""
    windowed: Array
    """Part of the layers that are windowed."""
    bits: Array
    mixture: Array
    """By how much computing is slower than of a dense model."""
    peak: Array
    """Operations a second of all chips of a replica."""
    bandwidth: Array
    """Bytes a second of all chips of a replica."""
    link: Array
    """Bytes a second between chips, one way."""
    chips: Array
    """Chips of a stage, over which tensors are split."""
    stages: Array
    overhead: Array
    given: Array
    """Tokens of a prompt that are computed."""
    cached: Array
    """Tokens of a prompt that are in the prefix cache already."""
    made: Array
    """Tokens of an answer."""

    def take(self, index: Any) -> "Work":
        """Return some of the candidates, by an index of numpy."""
        return Work(*(getattr(self, each.name)[index] for each in fields(self)))

    def column(self) -> "Work":
        """Return the same with a second axis, to go over batches."""
        return Work(*(getattr(self, each.name)[:, None] for each in fields(self)))


@dataclass(frozen=True)
class Step:
    """Seconds of a mean step and what they are made of."""

    seconds: Array
    decode: Array
    """Of a step that decodes only."""
    with_prompt: Array
    """Of a step that computes prompts, too."""
    chunk: Array
    """Prompt tokens of such a step."""
    part: Array
    """Part of the steps that are such."""
    compute: Array
    """Computing of a step with prompts, at the part of peak that is assumed."""
    memory: Array
    """Reading of a step that decodes only, likewise."""
    links: Array
    """Collectives of a step that decodes only."""


def work(
    shape: ModelShape,
    chip: Accelerator,
    *,
    tensor: int,
    stages: int = 1,
    kv_bits: float = 16,
    given: float,
    made: float,
    prefix_share: float = 0.0,
    groups: int = 1,
) -> Work:
    """Return the work of one candidate.

    Args:
        shape: of the model at the precision it is served in.
        chip: of all its chips.
        tensor: chips a layer is split over.
        stages: pipeline stages.
        kv_bits: of the KV cache.
        given: tokens of a prompt.
        made: tokens of an answer.
        prefix_share: part of the prompt that is in the prefix cache.
        groups: attention groups of an expert-parallel replica; each keeps its own KV cache, so
            that nothing is copied.
    """
    sizes = _sizes(shape, kv_token_bytes(shape, kv_bits) * kv_copies(shape, tensor / groups))
    rates = (
        _MIXTURE[chip.kind] if shape.is_mixture else 1.0,
        peak_flops(chip, shape.bits) * tensor * stages,
        chip.bandwidth_gbps * 1e9 * tensor * stages,
        chip.link_gbps * 1e9,
        tensor,
        stages,
        _OVERHEAD,
    )
    lengths = (given * (1 - prefix_share), given * prefix_share, made)
    return Work(*(np.array([float(value)]) for value in (*sizes, *rates, *lengths)))


def _sizes(shape: ModelShape, kv_bytes: float) -> tuple[float, ...]:
    """Return the fields of `Work` that are of the model, in its order."""
    window = shape.window
    return (
        shape.active_billion,
        shape.parameters_billion - shape.looked_up_billion,
        shape.layers,
        shape.hidden,
        shape.query_width or shape.hidden,
        kv_bytes,
        window[0] if window else 1e12,
        min(1.0, window[1] / shape.layers) if window else 0.0,
        shape.bits,
    )


def peak_flops(chip: Accelerator, bits: int) -> float:
    """Return operations a second of a chip at a precision of the weights."""
    peak = chip.bf16_tflops
    if bits == 8:
        peak = chip.fp8_tflops
    elif bits == 4:
        peak = chip.fp4_tflops or peak
    return peak * 1e12


def stack(parts: list[Work]) -> Work:
    """Return several as one."""
    return Work(
        *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Work))
    )


def step(one: Work, sequences: Array) -> Step:
    """Return the mean step while so many sequences run; shapes are broadcast."""
    count = np.maximum(1.0, sequences)
    needed = count * one.given / one.made
    chunk = np.minimum(np.maximum(one.given, needed), np.maximum(64.0, STEP_TOKENS - count))
    part = np.minimum(1.0, needed / chunk)
    length = one.given + one.cached + one.made / 2
    seen = (1 - one.windowed) * length + one.windowed * np.minimum(length, one.window)
    pairs = chunk * (one.cached + one.given / 2)
    decode = _compute(one, count, count * seen)
    both = _compute(one, count + chunk, count * seen + pairs)
    read = _memory(one, count, count * seen)
    read_both = _memory(one, count + chunk, count * seen + one.cached + one.given)
    links, links_both = _links(one, count), _links(one, count + chunk)
    alone = np.maximum(decode, read) + links + one.overhead
    mixed = np.maximum(both, read_both) + links_both + one.overhead
    return Step((1 - part) * alone + part * mixed, alone, mixed, chunk, part, both, read, links)


def _compute(one: Work, tokens: Array, pairs: Array) -> Array:
    flops = 2e9 * one.active * tokens + 4.0 * one.layers * one.query_width * pairs
    return flops / one.peak / _PREFILL * one.mixture


def _memory(one: Work, tokens: Array, context: Array) -> Array:
    touched = np.minimum(one.read, one.active * np.maximum(1.0, tokens**0.75))
    return (touched * 1e9 * one.bits / 8 + context * one.kv_bytes) / one.bandwidth / _DECODE


def _links(one: Work, tokens: Array) -> Array:
    hop = NETWORK_LATENCY_SECONDS + tokens * one.hidden * 2 / (NETWORK_GBPS * 1e9)
    moved = 2 * (one.chips - 1) / one.chips * tokens * one.hidden * 2
    each = COLLECTIVE_LATENCY_SECONDS + moved / one.link
    return (one.stages - 1) * hop + np.where(one.chips > 1, 2 * one.layers * each, 0.0)


def most_kept_busy(one: Work) -> Array:
    """Return how many sequences can be kept busy: more would need larger steps for prompts."""
    return STEP_TOKENS / (1 + one.given / one.made)


def at_lengths(one: Work, given: float, made: float) -> Work:
    """Return the same candidates with other lengths and no cached prefix."""
    alike = np.ones_like(one.given)
    return replace(one, given=alike * given, cached=alike * 0.0, made=alike * made)
