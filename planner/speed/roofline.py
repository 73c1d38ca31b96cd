"""How long one engine step takes: a roofline of compute, memory and the links between chips."""

from dataclasses import dataclass

from gke_inference.sizing.memory import kv_token_bytes
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import (
    COLLECTIVE_LATENCY_SECONDS,
    NETWORK_GBPS,
    NETWORK_LATENCY_SECONDS,
    SHARED_READ_COST,
    Accelerator,
    Efficiency,
    efficiency_of,
)


@dataclass(frozen=True)
class StepLoad:
    """What one step has to do."""

    prefill_tokens: int
    """Prompt tokens computed."""
    decode_tokens: int
    """Sequences that get their next token."""
    context_tokens: int
    """KV-cache tokens read, over all sequences of the step."""
    attention_pairs: int = 0
    """New tokens times the context each one attends to, over all sequences."""
    adapters: int = 0
    """Different LoRA adapters in the batch."""
    distinct_tokens: int | None = None
    """Of the KV-cache tokens read, those that are read once or first: sequences with a common
    prefix share its blocks. None: all are."""


@dataclass(frozen=True)
class CostModel:
    """Step times of a model on some chips."""

    model: ModelShape
    accelerator: Accelerator
    chips: int
    kv_bits: int = 16
    efficiency: Efficiency | None = None
    """None: that of vLLM on this kind of accelerator."""
    stages: int = 1
    """Pipeline stages, one a host: between them the network carries what goes on."""

    def step_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step: the slower of compute and memory, and the rest on top.

        A mixture of experts reads more of its weights the larger the batch is.
        """
        tokens = load.prefill_tokens + load.decode_tokens
        if tokens == 0:
            return 0.0
        reached = self.efficiency or efficiency_of(self.accelerator)
        compute = self.compute_seconds(load) / reached.prefill
        if self.model.is_mixture:
            compute *= reached.mixture
        memory = self.memory_seconds(load) / reached.decode
        adapters = 1 + 0.05 * load.adapters  # the extra matrix products of LoRA
        return (
            max(compute, memory) * adapters + self.link_seconds(tokens) + reached.overhead_seconds
        )

    def compute_seconds(self, load: StepLoad) -> float:
        """Return how long the operations of a step take at peak."""
        return self.flops(load) / (self._peak_flops() * self.chips)

    def memory_seconds(self, load: StepLoad) -> float:
        """Return how long the reads of a step take at peak."""
        return self.read_bytes(load) / (self.accelerator.bandwidth_gbps * 1e9 * self.chips)

    def flops(self, load: StepLoad) -> float:
        """Return the floating-point operations of a step: two for a parameter and token."""
        tokens = load.prefill_tokens + load.decode_tokens
        width = self.model.query_width or self.model.hidden
        attention = 4.0 * self.model.layers * width * load.attention_pairs
        return 2.0 * self.model.active_billion * 1e9 * tokens + attention

    def read_bytes(self, load: StepLoad) -> float:
        """Return the bytes of weights and KV cache that a step reads."""
        tokens = load.prefill_tokens + load.decode_tokens
        model = self.model
        touched = min(
            model.parameters_billion - model.looked_up_billion,
            model.active_billion * max(1.0, tokens**0.75),
        )
        weights = touched * 1e9 * self.model.bits / 8
        context: float = load.context_tokens
        if load.distinct_tokens is not None and load.distinct_tokens < context:
            again = context - load.distinct_tokens
            context = load.distinct_tokens + SHARED_READ_COST * again
        return weights + context * kv_token_bytes(self.model, self.kv_bits)

    def _peak_flops(self) -> float:
        chip = self.accelerator
        peak = chip.bf16_tflops
        if self.model.bits == 8:
            peak = chip.fp8_tflops
        elif self.model.bits == 4:
            peak = chip.fp4_tflops or peak
        return peak * 1e12

    def link_seconds(self, tokens: int) -> float:
        """Two all-reduces a layer among the chips of a stage, and a hop from stage to stage.

        The stages work on different parts of the batch at once, so their number does not slow a
        step down but for the hops.
        """
        hop = NETWORK_LATENCY_SECONDS + tokens * self.model.hidden * 2 / (NETWORK_GBPS * 1e9)
        hops = (self.stages - 1) * hop
        chips = self.chips // self.stages
        if chips == 1:
            return hops
        moved = 2 * (chips - 1) / chips * tokens * self.model.hidden * 2
        one = COLLECTIVE_LATENCY_SECONDS + moved / (self.accelerator.link_gbps * 1e9)
        return 2 * self.model.layers * one + hops
