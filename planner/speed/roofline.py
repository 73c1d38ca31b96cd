"""Duration of an engine step: a roofline of compute, memory and the links between chips.

With pipeline parallelism, the batch is divided into micro-batches, at most one for each stage. Each
passes all stages in series and reads the weights of every stage, so a token takes as long as on the
chips of one stage with that micro-batch. Throughput grows with the micro-batches in flight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gke_inference.sizing.memory import kv_token_bytes
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import (
    HOST_NETWORKS,
    SHARED_READ_COST,
    Accelerator,
    Efficiency,
    HostNetwork,
    Link,
    efficiency_of,
)
from planner.speed.links import ALLGATHER, Exchange, Links, all_reduces, all_to_alls, hops
from planner.speed.mixtures import adapter_factor, read_billion
from planner.speed.mixtures import experts_touched as of_layer
from planner.speed.speculation import Speculation, head_billion, pass_seconds

LEAST_TILE_TOKENS, MOST_TILE_TOKENS = 16, 128
"""Tokens of a tile of the expert kernels (block_m of vLLM's fused_moe and Marlin kernels)."""


@dataclass(frozen=True)
class StepLoad:
    """The work of one step."""

    prefill_tokens: float
    """Prompt tokens that the step computes."""
    decode_tokens: float
    """Sequences that get their next token in the step."""
    context_tokens: float
    """KV-cache tokens read for all sequences of the step."""
    attention_pairs: float = 0
    """Sum over all new tokens of the context that each attends to."""
    adapters: int = 0
    """Number of different LoRA adapters in the batch."""
    distinct_tokens: float | None = None
    """Distinct KV-cache tokens among those read; sequences with a common prefix share blocks.
    None: all are distinct."""
    prompts: float = 1
    """Requests whose prompts the step computes, if it computes any."""
    prompt_context: float = 0
    """Those of `context_tokens` that belong to the prompts, in a step that also decodes."""

    @property
    def decoding(self) -> "StepLoad":
        """The same step without its prompts.

        `distinct_tokens` is only known for all sequences. Prompts are counted as if they shared
        nothing, but at least one of the other sequences is distinct.
        """
        context = self.context_tokens - self.prompt_context
        distinct = self.distinct_tokens
        if distinct is not None:
            least = context / max(1.0, self.decode_tokens)
            distinct = max(distinct - self.prompt_context, least)
        return StepLoad(
            0, self.decode_tokens, context, context, self.adapters, distinct, self.prompts
        )

    def verifying(self, drafts: int) -> "StepLoad":
        """Return the step that also verifies draft tokens.

        Args:
            drafts: Draft tokens of each sequence.
        """
        return StepLoad(
            self.prefill_tokens,
            (1 + drafts) * self.decode_tokens,
            self.context_tokens,
            self.attention_pairs + drafts * (self.context_tokens - self.prompt_context),
            self.adapters,
            self.distinct_tokens,
            self.prompts,
            self.prompt_context,
        )


@dataclass(frozen=True)
class StepParts:
    """Durations of a step's parts at the peaks of the chips, in seconds."""

    product_compute: float
    product_reads: float
    attention_compute: float
    attention_reads: float

    @property
    def seconds(self) -> float:
        """Products and attention, one after the other; each computes and reads at once."""
        products = max(self.product_compute, self.product_reads)
        return products + max(self.attention_compute, self.attention_reads)


def experts_touched(model: ModelShape, tokens: float) -> float:
    """Return how many experts of a layer some token of a step passes through."""
    return of_layer(model.experts, model.active_experts, tokens)


def touched_billion(model: ModelShape, tokens: float, copies: int = 1) -> float:
    """Return the parameters that a step reads, in billions; `copies` are those of each expert."""
    return read_billion(
        tokens,
        active=model.active_billion,
        whole=model.parameters_billion - model.looked_up_billion,
        experts=model.experts,
        chosen=model.active_experts,
        expert=model.expert_billion,
        copies=copies,
    )


def padded_tokens(model: ModelShape, tokens: float) -> float:
    """Return the tokens that an expert layer computes in vain.

    Grouped matrix products compute tiles of tokens, and the last tile of each expert is half empty
    on average. Kernels choose smaller tiles where an expert has fewer tokens.
    """
    if not model.expert_billion:
        return 0.0
    each = tokens * model.active_experts / model.experts
    tile = min(MOST_TILE_TOKENS, max(LEAST_TILE_TOKENS, each))
    return experts_touched(model, tokens) * tile / 2


@dataclass(frozen=True)
class ExpertGroup:
    """Devices over which the experts of a replica are spread, each with a copy of all the rest.

    The devices compute every layer in lockstep. The model of one host assumes that the other hosts
    have the same load.
    """

    devices: int
    """Devices of all hosts."""
    hosts: int = 1
    copies: int = 1
    """Copies of the layers without experts, which process different requests."""
    redundant: int = 0
    """Additional copies of experts."""
    backend: str = ALLGATHER
    """All-to-all backend: one of `links.BACKENDS`."""


@dataclass(frozen=True)
class CostModel:
    """Step times of a model on a set of chips."""

    model: ModelShape
    accelerator: Accelerator
    chips: int
    kv_bits: int = 16
    efficiency: Efficiency | None = None
    """Efficiency of the engine; None: that of vLLM on this kind of accelerator."""
    stages: int = 1
    """Pipeline stages, over which the chips are divided, and which communicate over the network."""
    network: HostNetwork = HOST_NETWORKS["tcp"]
    """Network between the hosts of the stages."""
    experts: ExpertGroup | None = None
    """Expert parallelism; `chips` are then those of one host."""
    speculation: Speculation | None = None
    """Speculative decoding; a step then generates several tokens for each sequence."""
    link: Link | None = None
    """What connects the chips of a host; None: the accelerator's link at its full rate."""

    def step_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step that generates one token for each sequence.

        Matrix products and attention each take the longer of their compute time and of the time of
        their reads, one after the other, and the rest adds up. Where the efficiency of attention is
        not known, the two are one: the longer of all computing and all reading. A
        mixture-of-experts model reads more of its weights as the batch grows. With speculative
        decoding, a step generates several tokens: the duration is then its share of one token. What
        prompts add is not divided, and hides only behind that share of the reads: no step computes
        more than the chips can.
        """
        guess = self.speculation
        if guess is None or not load.decode_tokens:
            return self._whole_seconds(load)

        verified = self._reached_parts(load.verifying(guess.tokens))
        usual = self._reached_parts(load.decoding.verifying(guess.tokens))

        def of(part: str) -> float:
            of_usual: float = getattr(usual, part)
            return getattr(verified, part) - of_usual + of_usual / guess.length

        longer = max(of("product_compute"), of("product_reads"))
        longer += max(of("attention_compute"), of("attention_reads"))
        rest = self._of_one_token(load, self._other_seconds, self._draft_seconds)
        return longer * adapter_factor(load.adapters) + rest

    def step_flops(self, load: StepLoad) -> float:
        """Return the operations of a step that generates one token for each sequence."""
        return self._of_one_token(load, self.flops, self._draft_flops)

    def step_read_bytes(self, load: StepLoad) -> float:
        """Return the bytes that a step reads that generates one token for each sequence."""
        return self._of_one_token(load, self.read_bytes, self._draft_bytes)

    def step_written_tokens(self, load: StepLoad) -> float:
        """Return the tokens that a step writes into the KV cache, including rejected drafts."""
        return self._of_one_token(load, lambda of: of.prefill_tokens + of.decode_tokens)

    def _of_one_token(
        self,
        load: StepLoad,
        whole: Callable[[StepLoad], float],
        draft: Callable[[StepLoad], float] | None = None,
    ) -> float:
        """Return what a step costs, divided by the tokens that it generates for a sequence.

        Args:
            load: Work of the step, without draft tokens.
            whole: Returns the cost of a step with the draft tokens that it verifies.
            draft: Returns the cost of one draft pass, if it has any, for the decoding sequences.
        """
        guess = self.speculation
        if guess is None or not load.decode_tokens:
            return whole(load)
        decoding = load.decoding
        usual = whole(decoding.verifying(guess.tokens))
        passes = guess.tokens * draft(decoding) if draft is not None and guess.has_passes else 0.0
        verified = whole(load.verifying(guess.tokens))
        return verified - usual + (usual + passes) / guess.length

    def _draft_seconds(self, decoding: StepLoad) -> float:
        """Return the time of a draft pass: a layer of the model and the logits."""
        reached = self.efficiency or efficiency_of(self.accelerator)
        layer = (self._whole_seconds(decoding) - self.fixed_seconds) / self.model.layers
        bandwidth = self.accelerator.bandwidth_gbps * 1e9 * self._chips_of_stage * reached.decode
        return layer + self._head_bytes() / bandwidth + pass_seconds()

    def _draft_flops(self, decoding: StepLoad) -> float:
        head = 2e9 * head_billion(self.model.hidden) * decoding.decode_tokens
        return self.flops(decoding) / self.model.layers + head

    def _draft_bytes(self, decoding: StepLoad) -> float:
        return self.read_bytes(decoding) / self.model.layers + self._head_bytes()

    def _head_bytes(self) -> float:
        return head_billion(self.model.hidden) * 1e9 * self.model.bits / 8

    def _whole_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step without speculation."""
        if load.prefill_tokens + load.decode_tokens == 0:
            return 0.0
        longer = self._reached_parts(load).seconds
        return longer * adapter_factor(load.adapters) + self._other_seconds(load)

    @property
    def reached(self) -> Efficiency:
        """Efficiency of the engine."""
        return self.efficiency or efficiency_of(self.accelerator)

    @property
    def prefill(self) -> float:
        """Fraction of the peak at the precision of the weights that matrix products reach."""
        is_narrow = self.peak_flops > self.accelerator.bf16_tflops * 1e12
        return self.reached.prefill * (self.reached.narrow if is_narrow else 1.0)

    def parts(self, load: StepLoad) -> StepParts:
        """Return the durations of a step at the peaks of the chips, over all stages in series."""
        micro = self.micro_batch(load)
        chips = self._chips_of_stage
        bandwidth = self.accelerator.bandwidth_gbps * 1e9 * chips
        attention, kv = self._attention_flops(micro), self._kv_bytes_of(micro)
        return StepParts(
            (self.flops(micro) - attention) / (self.peak_flops * chips),
            (self._bytes_of(micro) - kv) / bandwidth,
            attention / (self.accelerator.bf16_tflops * 1e12 * chips),
            kv / bandwidth,
        )

    def _reached_parts(self, load: StepLoad) -> StepParts:
        """Return the durations of a step's parts at the figures that engines reach."""
        if load.prefill_tokens + load.decode_tokens == 0:
            return StepParts(0.0, 0.0, 0.0, 0.0)
        reached = self.reached
        slower = (reached.mixture if self.model.is_mixture else 1.0) / self.prefill
        if reached.attention is None:
            compute = self.compute_seconds(load) * slower
            return StepParts(compute, self.memory_seconds(load) / reached.decode, 0.0, 0.0)
        parts = self.parts(load)
        return StepParts(
            parts.product_compute * slower,
            parts.product_reads / reached.decode,
            parts.attention_compute / reached.attention,
            parts.attention_reads / (reached.kv or reached.decode),
        )

    @property
    def fixed_seconds(self) -> float:
        """Time of a step that no hardware explains: scheduling, launches, sampling."""
        reached = self.reached
        return reached.overhead_seconds + self.model.layers * reached.layer_seconds

    def _other_seconds(self, load: StepLoad) -> float:
        """Return the time of a step's messages, and the time that no hardware explains."""
        if load.prefill_tokens + load.decode_tokens == 0:
            return 0.0
        return self.link_seconds(load) + self.fixed_seconds

    def compute_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step's operations at peak compute, over all stages in series."""
        return self.flops(self.micro_batch(load)) / (self.peak_flops * self._chips_of_stage)

    def memory_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step's reads at peak bandwidth, over all stages in series."""
        bandwidth = self.accelerator.bandwidth_gbps * 1e9 * self._chips_of_stage
        return self._bytes_of(self.micro_batch(load)) / bandwidth

    @property
    def _chips_of_stage(self) -> int:
        return self.chips // self.stages

    def _micro_batches(self, load: StepLoad) -> float:
        """Return the micro-batches of a step: as many as there are stages, or sequences."""
        sequences = load.decode_tokens + (load.prompts if load.prefill_tokens else 0)
        return min(self.stages, max(1, sequences))

    def micro_batch(self, load: StepLoad) -> StepLoad:
        """Return the largest micro-batch of a step; the whole step with one stage.

        The tokens of a prompt stay in one micro-batch, so prompts are divided over at most as many
        micro-batches as there are prompts. The others wait for the largest one.
        """
        count = self._micro_batches(load)
        if count == 1:
            return load
        of_prompts = min(count, load.prompts)
        distinct = load.distinct_tokens
        return StepLoad(
            load.prefill_tokens / of_prompts,
            load.decode_tokens / count,
            load.context_tokens / count,
            load.attention_pairs / (of_prompts if load.prefill_tokens else count),
            load.adapters,
            None if distinct is None else distinct / count,
            load.prompts,
            load.prompt_context / count,
        )

    def flops(self, load: StepLoad) -> float:
        """Return the floating-point operations of a step: two per parameter and token."""
        tokens = load.prefill_tokens + load.decode_tokens
        attention = self._attention_flops(load)
        padding = 0.0
        if self.accelerator.kind == "gpu":  # TPU kernels have other tiles, and their own factor
            padding = self.model.expert_billion * padded_tokens(self.model, tokens)
        return 2e9 * (self.model.active_billion * tokens + padding) + attention

    def _attention_flops(self, load: StepLoad) -> float:
        width = self.model.query_width or self.model.hidden
        return 4.0 * self.model.layers * width * load.attention_pairs

    def read_bytes(self, load: StepLoad) -> float:
        """Return the bytes of weights and KV cache that a step reads."""
        return self._bytes_of(self.micro_batch(load)) * self._micro_batches(load)

    def _bytes_of(self, load: StepLoad) -> float:
        """Return the bytes that one micro-batch reads in all stages."""
        model, group = self.model, self.experts or ExpertGroup(1)
        tokens = (load.prefill_tokens + load.decode_tokens) * group.hosts
        touched = touched_billion(model, tokens, group.copies)
        return touched / group.hosts * 1e9 * model.bits / 8 + self._kv_bytes_of(load)

    @property
    def kv_bytes(self) -> float:
        """Bytes of the KV cache of one token."""
        return kv_token_bytes(self.model, self.kv_bits)

    def _kv_bytes_of(self, load: StepLoad) -> float:
        """Return the bytes of KV cache that one micro-batch reads in all stages."""
        context: float = load.context_tokens
        if load.distinct_tokens is not None and load.distinct_tokens < context:
            again = context - load.distinct_tokens
            context = load.distinct_tokens + SHARED_READ_COST * again
        return context * self.kv_bytes

    @property
    def peak_flops(self) -> float:
        """Operations per second of a chip at the precision of the weights."""
        chip = self.accelerator
        peak = chip.bf16_tflops
        if self.model.bits == 8:
            peak = chip.fp8_tflops
        elif self.model.bits == 4:
            peak = chip.fp4_tflops or peak
        return peak * 1e12

    def link_seconds(self, load: StepLoad) -> float:
        """Return the time of the messages of a step, over all stages in series."""
        micro = self.micro_batch(load)
        tokens = micro.prefill_tokens + micro.decode_tokens
        return self.links.seconds(tokens * (self.experts or ExpertGroup(1)).hosts)

    @cached_property
    def links(self) -> Links:
        """Messages of a step."""
        model, chip = self.model, self.accelerator
        if self.experts is not None:
            return all_to_alls(
                model.layers,
                Exchange(
                    self.experts.devices,
                    self.experts.hosts,
                    model.experts,
                    model.active_experts,
                    model.hidden,
                    self.link.gbps if self.link else chip.link_gbps,
                    self.network,
                    self.experts.backend,
                ),
            )
        link = self.link or Link(chip.link_gbps)
        inside = all_reduces(
            model.layers, model.hidden, self._chips_of_stage, link.gbps, link.latency_seconds
        )
        return inside + hops(self.stages, model.hidden, self.network)
