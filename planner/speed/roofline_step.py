"""The steady state of an engine under load, for many candidates at once.

A load is reduced to one mean step: `sequences` decode, at a context of the prompt and half the
answer, while the same steps compute the prompts of the sequences that replace finished ones. A step
takes the longer of compute and memory time, plus collectives and a fixed time. The equations are
those of `roofline.CostModel`, on arrays. `correction` adjusts them to real engines.

With pipeline stages, the sequences are divided into as many micro-batches. Each is a step of its
own, which passes all stages in series.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gke_inference.sizing.memory import STEP_TOKENS, kv_copies, kv_token_bytes
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import (
    CHIPS_OF_A_HOST,
    HOST_NETWORKS,
    Accelerator,
    network_of_host,
)
from planner.speed.links import ALLGATHER, Exchange, Links, all_reduces, all_to_alls, hops
from planner.speed.mixtures import adapter_factor, read_billion
from planner.speed.speculation import Speculation, head_billion, pass_seconds

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
    copies: Array
    """Copies of the layers without experts: one per device with expert parallelism, else 1."""
    peak: Array
    """Operations per second of the chips of a stage."""
    bandwidth: Array
    """Memory bandwidth of the chips of a stage, in bytes per second."""
    stages: Array
    link_fixed: Array
    """Latency of all messages of a step, in seconds."""
    link_token: Array
    """Time of the messages per token of a micro-batch, in seconds."""
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
    drafted: Array
    """Draft tokens of a sequence and step; 0 without speculative decoding."""
    accepted: Array
    """Expected tokens that a step generates for a sequence, at least 1."""
    passes: Array
    """Draft passes on the accelerator in a step."""
    head: Array
    """Time of a draft pass for the logits and the launches, in seconds."""

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
    """Mean time of one token: with speculative decoding, a step generates several."""
    decode: Array
    """Time of one token in a step without prompts."""
    with_prompt: Array
    """Duration of a step that also computes prompts."""
    decode_with_prompt: Array
    """Time of one token in such a step."""
    batches: Array
    """Micro-batches in flight: 1 without pipeline stages."""
    chunk: Array
    """Prompt tokens per micro-batch with prompts."""
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
    drafts: Array
    """Passes that draft tokens, with their reads; 0 without speculative decoding."""

    @property
    def seconds(self) -> Array:
        """Duration of the step."""
        return np.maximum(self.compute, self.memory) + self.links + self.fixed + self.drafts


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
    backend: str = ALLGATHER,
    guess: Speculation | None = None,
) -> Work:
    """Return the work of one candidate.

    Args:
        shape: Shape of the model at its serving precision.
        chip: Accelerator of all its chips.
        tensor: Chips over which a layer is split.
        stages: Number of pipeline stages.
        network: Network between the hosts: `rdma` or `tcp`; empty for stages on one host.
        kv_bits: Bits of a KV-cache value.
        given: Tokens per prompt.
        made: Tokens per answer.
        prefix_share: Fraction of the prompt that is in the prefix cache.
        groups: Attention groups of an expert-parallel replica. Each has its own KV cache without
            copies.
        adapters: Different LoRA adapters among the requests.
        backend: All-to-all backend of an expert-parallel replica: one of `links.BACKENDS`.
        guess: Speculative decoding, or None.
    """
    sizes = _sizes(shape, kv_token_bytes(shape, kv_bits) * kv_copies(shape, tensor / groups))
    links = _links_of(shape, chip, tensor, stages, network, groups, backend)
    rates = (
        _MIXTURE[chip.kind] if shape.is_mixture else 1.0,
        groups,
        peak_flops(chip, shape.bits) * tensor,
        chip.bandwidth_gbps * 1e9 * tensor,
        stages,
        links.fixed,
        links.per_token,
        _OVERHEAD[chip.kind],
        _EACH[chip.kind],
    )
    lengths = (given * (1 - prefix_share), given * prefix_share, made, adapters)
    drafts = _drafts(shape, chip.bandwidth_gbps * 1e9 * tensor, guess)
    return Work(*(np.array([float(value)]) for value in (*sizes, *rates, *lengths, *drafts)))


def _drafts(shape: ModelShape, bandwidth: float, guess: Speculation | None) -> tuple[float, ...]:
    """Return the fields of `Work` on speculative decoding, in their order."""
    if guess is None:
        return (0.0, 1.0, 0.0, 0.0)
    read = head_billion(shape.hidden) * 1e9 * shape.bits / 8 / bandwidth / _DECODE
    passes = guess.tokens if guess.has_passes else 0
    return (guess.tokens, guess.length, passes, read + pass_seconds())


def _links_of(
    shape: ModelShape,
    chip: Accelerator,
    tensor: int,
    stages: int,
    network: str,
    groups: int,
    backend: str,
) -> Links:
    """Return the messages of a step; the arguments are those of `work`."""
    between = HOST_NETWORKS[network] if network else network_of_host(chip)
    if groups > 1 and shape.expert_billion:
        hosts = max(1, tensor // CHIPS_OF_A_HOST)
        exchange = Exchange(
            tensor, hosts, shape.experts, shape.active_experts, shape.hidden, chip.link_gbps,
            between, backend,
        )  # fmt: skip
        return all_to_alls(shape.layers, exchange)
    split = all_reduces(shape.layers, shape.hidden, tensor, chip.link_gbps)
    return split + hops(stages, shape.hidden, between)


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
    batches = np.minimum(one.stages, np.maximum(1.0, sequences))
    count = np.maximum(1.0, sequences) / batches
    needed = count * one.given / one.made
    chunk = np.minimum(np.maximum(one.given, needed), np.maximum(64.0, STEP_TOKENS - count))
    part = np.minimum(1.0, needed / chunk)
    length = one.given + one.cached + one.made / 2
    seen = (1 - one.windowed) * length + one.windowed * np.minimum(length, one.window)
    pairs = chunk * (one.cached + one.given / 2)
    fixed = one.overhead + count * one.each
    slower = adapter_factor(np.minimum(one.adapters, count))
    verified = count * (1 + one.drafted)
    drafts = one.passes * _draft_seconds(one, count, count * seen, slower)
    alone = Parts(
        _compute(one, verified, verified * seen) * slower,
        _memory(one, verified, count * seen) * slower,
        _links(one, verified),
        fixed,
        drafts,
    )
    both = verified + chunk
    mixed = Parts(
        _compute(one, both, verified * seen + pairs) * slower,
        _memory(one, both, count * seen + one.cached + one.given) * slower,
        _links(one, both),
        fixed,
        drafts,
    )
    decode = alone.seconds / one.accepted
    both = _of_one_token(alone, mixed, one.accepted)
    seconds = (1 - part) * decode + part * both
    return Step(seconds, decode, mixed.seconds, both, batches, chunk, part, alone, mixed)


def _of_one_token(alone: Parts, mixed: Parts, accepted: Array) -> Array:
    """Return the time of one token in a step with prompts, as `CostModel.step_seconds` does.

    What prompts add is not divided by the generated tokens, and hides only behind the reads of one.
    """
    saved = 1 - 1 / accepted
    compute = mixed.compute - saved * alone.compute
    memory = mixed.memory - saved * alone.memory
    rest = mixed.links + mixed.fixed + mixed.drafts
    return np.maximum(compute, memory) + rest - saved * (alone.links + alone.fixed + alone.drafts)


def _draft_seconds(one: Work, count: Array, context: Array, slower: Array) -> Array:
    """Return the time to draft one token for each sequence: a layer of the model, and logits."""
    longer = np.maximum(_compute(one, count, context), _memory(one, count, context)) * slower
    return (longer + _links(one, count)) / one.layers + one.head


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
        copies=one.copies,
    )
    return (touched * 1e9 * one.bits / 8 + context * one.kv_bytes) / one.bandwidth / _DECODE


def _links(one: Work, tokens: Array) -> Array:
    return one.link_fixed + tokens * one.link_token


def most_kept_busy(one: Work) -> Array:
    """Return the maximum number of busy sequences; more would need larger steps for prompts."""
    return one.stages * STEP_TOKENS / (1 + one.given / one.made)


def at_lengths(one: Work, given: float, made: float) -> Work:
    """Return the same candidates with other lengths and no cached prefix."""
    alike = np.ones_like(one.given)
    return replace(one, given=alike * given, cached=alike * 0.0, made=alike * made)
