"""How long one engine step takes: a roofline of compute, memory and the links between chips."""

from dataclasses import dataclass

from twin.engines.vllm.hardware import (
    COLLECTIVE_LATENCY_SECONDS,
    DECODE_EFFICIENCY,
    PREFILL_EFFICIENCY,
    STEP_OVERHEAD_SECONDS,
    Accelerator,
)
from twin.engines.vllm.models import ModelShape


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


@dataclass(frozen=True)
class CostModel:
    """Step times of a model on some chips."""

    model: ModelShape
    accelerator: Accelerator
    chips: int
    kv_bits: int = 16

    def step_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step: the slower of compute and memory, and the rest on top.

        A mixture of experts reads more of its weights the larger the batch is.
        """
        tokens = load.prefill_tokens + load.decode_tokens
        if tokens == 0:
            return 0.0
        kind = self.accelerator.kind
        compute = self.flops(load) / (self._peak_flops() * self.chips * PREFILL_EFFICIENCY[kind])
        memory = self.read_bytes(load) / (
            self.accelerator.bandwidth_gbps * 1e9 * self.chips * DECODE_EFFICIENCY[kind]
        )
        adapters = 1 + 0.05 * load.adapters  # the extra matrix products of LoRA
        return (
            max(compute, memory) * adapters
            + self._link_seconds(tokens)
            + STEP_OVERHEAD_SECONDS[kind]
        )

    def flops(self, load: StepLoad) -> float:
        """Return the floating-point operations of a step: two for a parameter and token."""
        tokens = load.prefill_tokens + load.decode_tokens
        width = self.model.kv_heads * self.model.head_dim * 4  # about four query heads a KV head
        attention = 4.0 * self.model.layers * width * load.attention_pairs
        return 2.0 * self.model.active_billion * 1e9 * tokens + attention

    def read_bytes(self, load: StepLoad) -> float:
        """Return the bytes of weights and KV cache that a step reads."""
        tokens = load.prefill_tokens + load.decode_tokens
        touched = min(
            self.model.parameters_billion, self.model.active_billion * max(1.0, tokens**0.75)
        )
        weights = touched * 1e9 * self.model.bits / 8
        return weights + load.context_tokens * self.model.kv_bytes_per_token(self.kv_bits)

    def _peak_flops(self) -> float:
        fast = self.model.bits == 8
        return (self.accelerator.fp8_tflops if fast else self.accelerator.bf16_tflops) * 1e12

    def _link_seconds(self, tokens: int) -> float:
        """Two all-reduces a layer among the chips of a tensor-parallel group."""
        if self.chips == 1:
            return 0.0
        width = self.model.kv_heads * self.model.head_dim * 4
        moved = 2 * (self.chips - 1) / self.chips * tokens * width * 2
        one = COLLECTIVE_LATENCY_SECONDS + moved / (self.accelerator.link_gbps * 1e9)
        return 2 * self.model.layers * one
