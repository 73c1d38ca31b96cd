"""The steady state of an engine under load, for many candidates at once.

A load is reduced to one mean step: `sequences` decode, at a context of the prompt and half the
answer, while the same steps compute the prompts of the sequences that replace finished ones. A step
takes the longer of compute and memory time, plus collectives and fixed times. The equations are
those of `roofline.CostModel`, on arrays. What an engine reaches of the hardware is a `Reached`:
`constants` has those that fit published measurements, and `correction` adjusts single models.

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

_MOST_WAITING = 3.0
"""Requests that wait for each that runs, at most: more are a server that refuses or fails."""


@dataclass(frozen=True)
class Reached:
    """What an engine reaches of its hardware, and its additional times, in seconds.

    The defaults are round values in the middle of the range of docs/reference/engine-model.md,
    without times of layers and requests. Plans take theirs from `constants`.
    """

    compute: float = 0.5
    """Share of peak compute that matrix products reach."""
    attention: float = 0.5
    """Share of the peak at 16 bits that attention reaches."""
    memory: float = 0.65
    """Share of peak bandwidth that reading weights reaches."""
    cache: float = 0.65
    """Share of peak bandwidth that reading the KV cache reaches."""
    mixture: float = 2.5
    """Factor by which a mixture of experts computes slower than a dense model of its size."""
    scattered: float = 1.0
    """Factor by which it reads its weights slower."""
    fixed: float = 0.003
    """Time of a step: scheduling, launch and sampling."""
    layer: float = 0.0
    """Time of a step for each layer: launches of small kernels."""
    each: float = 0.0
    """Time of a step for each of its sequences."""
    latency: float = 1.0
    """Factor on the latency of messages."""
    link: float = 1.0
    """Share of the bandwidth of links that messages reach."""
    beside: float = 1.0
    """Share of the time that prompts add to a step for which other sequences wait."""
    first: float = 0.0
    """Time of a request outside its steps: HTTP, tokens from text, first scheduling."""
    own: float = 1.0
    """Factor on a prompt's own steps, for its first token."""
    burst: float = 1.0
    """Factor on the wait for prompts that arrive together in a closed loop."""


REACHED = tuple(each.name for each in fields(Reached))
DEFAULT = Reached()
MACHINE_LINKS_GBPS = {"nvidia-l4": 8.0}
"""Bandwidth between the chips of a machine, one way, where it is not that of the chip. G2: its L4
communicate over PCIe without peer-to-peer access. With 32 GB/s, the published points with four L4
take 1.42 to 1.48 times the estimate; with 8 GB/s, 1.24 to 1.29 times. G4 keeps the 64 GB/s of its
RTX PRO 6000: Google connects them with a fabric of its own (cloud.google.com/blog, G4 VMs P2P
fabric). Other machines with PCIe and without peer-to-peer access reach about 16 GB/s, as profiled
by LLMServingSim; a measurement on one states it (`link_gb_per_s`)."""


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
    copies: Array
    """Copies of the layers without experts: one per device with expert parallelism, else 1."""
    peak: Array
    """Operations per second of the chips of a stage."""
    peak_16: Array
    """The same at 16 bits, as attention computes."""
    bandwidth: Array
    """Memory bandwidth of the chips of a stage, in bytes per second."""
    stages: Array
    link_fixed: Array
    """Latency of all messages of a step, in seconds."""
    link_token: Array
    """Time of the messages per token of a micro-batch, in seconds."""
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
    compute: Array
    """This field and the next ones are those of `Reached`; `mixture` and `scattered` are 1 for a
    dense model."""
    attention: Array
    memory: Array
    cache: Array
    mixture: Array
    scattered: Array
    fixed: Array
    layer: Array
    each: Array
    latency: Array
    link: Array
    beside: Array
    first: Array
    own: Array
    burst: Array

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
    prompt: Array
    """Duration of the steps that compute one prompt and nothing else."""


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
    reached: Reached = DEFAULT,
    link_gbps: float | None = None,
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
        reached: What the engine reaches of the hardware.
        link_gbps: Bandwidth between the chips of the machine, one way, in 10^9 bytes per second;
            None for that of `machine_links`.
    """
    if link_gbps is None:
        link_gbps = MACHINE_LINKS_GBPS.get(chip.name, chip.link_gbps)
    chip = replace(chip, link_gbps=link_gbps)
    if not shape.is_mixture:
        reached = replace(reached, mixture=1.0, scattered=1.0)
    sizes = _sizes(shape, kv_token_bytes(shape, kv_bits) * kv_copies(shape, tensor / groups))
    links = _links_of(shape, chip, tensor, stages, network, groups, backend)
    rates = (
        groups,
        peak_flops(chip, shape.bits) * tensor,
        peak_flops(chip, 16) * tensor,
        chip.bandwidth_gbps * 1e9 * tensor,
        stages,
        links.fixed,
        links.per_token,
    )
    lengths = (given * (1 - prefix_share), given * prefix_share, made, adapters)
    drafts = _drafts(shape, chip.bandwidth_gbps * 1e9 * tensor * reached.memory, guess)
    numbers = (*sizes, *rates, *lengths, *drafts, *(getattr(reached, name) for name in REACHED))
    return Work(*(np.array([float(value)]) for value in numbers))


def _drafts(shape: ModelShape, bandwidth: float, guess: Speculation | None) -> tuple[float, ...]:
    """Return the fields of `Work` on speculative decoding, in their order."""
    if guess is None:
        return (0.0, 1.0, 0.0, 0.0)
    read = head_billion(shape.hidden) * 1e9 * shape.bits / 8 / bandwidth
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
    fixed = one.fixed + one.layer * one.layers + count * one.each
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
    seconds = decode + part * one.beside * (one_token(alone, mixed, one.accepted) - decode)
    of_chunk = one.given / chunk
    prompt = (
        np.maximum(
            _compute(one, chunk, pairs) * of_chunk, _memory(one, chunk, one.cached + one.given)
        )
        + _links(one, chunk * of_chunk)
        + fixed
    )
    return Step(seconds, decode, mixed.seconds, batches, chunk, part, alone, mixed, prompt)


def one_token(alone: Parts, mixed: Parts, accepted: Array) -> Array:
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
    products = 2e9 * one.active * tokens / one.peak / one.compute * one.mixture
    attention = 4.0 * one.layers * one.query_width * pairs / one.peak_16 / one.attention
    return products + attention


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
    weights = touched * 1e9 * one.bits / 8 / one.memory * one.scattered
    return (weights + context * one.kv_bytes / one.cache) / one.bandwidth


def _links(one: Work, tokens: Array) -> Array:
    return one.link_fixed * one.latency + tokens * one.link_token / one.link


def first_token(one: Work, made: Step) -> Array:
    """Return the time to the first token of a request that waits for no other, in seconds."""
    return one.first + one.own * made.prompt + 0.5 * made.decode


def first_token_of_loop(
    one: Work, made: Step, sequences: Array, asked: Array, waves: Array
) -> Array:
    """Return the mean time to the first token in a closed loop, in seconds.

    All clients send their first request at once, so each prompt of the first wave waits for half
    of the others; later waves are spread out. Requests beyond the KV cache wait for a sequence.

    Args:
        one: Work of each loop.
        made: Its mean step.
        sequences: Sequences that run at once.
        asked: Requests that clients keep in flight.
        waves: Requests of the whole run, divided by those in flight.
    """
    burst = one.burst * np.maximum(0.0, sequences - 1) * made.prompt / (2 * waves)
    waiting = np.clip(asked / sequences - 1, 0.0, _MOST_WAITING)
    queue = waiting * made.seconds * one.made * (1 - 1 / waves)
    return first_token(one, made) + burst + queue


def most_kept_busy(one: Work) -> Array:
    """Return the maximum number of busy sequences; more would need larger steps for prompts."""
    return one.stages * STEP_TOKENS / (1 + one.given / one.made)
