"""Duration of an engine step: a roofline of compute, memory and the links between chips."""

from dataclasses import dataclass

from gke_inference.sizing.memory import kv_token_bytes
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import (
    CHIPS_OF_A_HOST,
    COLLECTIVE_LATENCY_SECONDS,
    HOST_NETWORKS,
    SHARED_READ_COST,
    Accelerator,
    Efficiency,
    HostNetwork,
    efficiency_of,
)
from planner.speed.mixtures import adapter_factor, read_billion
from planner.speed.mixtures import experts_touched as of_layer

LEAST_TILE_TOKENS, MOST_TILE_TOKENS = 16, 128
"""Tokens of a tile of the expert kernels (block_m of vLLM's fused_moe and Marlin kernels)."""


@dataclass(frozen=True)
class StepLoad:
    """The work of one step."""

    prefill_tokens: int
    """Prompt tokens that the step computes."""
    decode_tokens: int
    """Sequences that get their next token in the step."""
    context_tokens: int
    """KV-cache tokens read for all sequences of the step."""
    attention_pairs: int = 0
    """Sum over all new tokens of the context that each attends to."""
    adapters: int = 0
    """Number of different LoRA adapters in the batch."""
    distinct_tokens: int | None = None
    """Distinct KV-cache tokens among those read; sequences with a common prefix share blocks.
    None: all are distinct."""


def experts_touched(model: ModelShape, tokens: float) -> float:
    """Return how many experts of a layer some token of a step passes through."""
    return of_layer(model.experts, model.active_experts, tokens)


def touched_billion(model: ModelShape, tokens: float) -> float:
    """Return the parameters that a step reads, in billions."""
    return read_billion(
        tokens,
        active=model.active_billion,
        whole=model.parameters_billion - model.looked_up_billion,
        experts=model.experts,
        chosen=model.active_experts,
        expert=model.expert_billion,
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
    """Pipeline stages, one per host, which communicate over the network."""
    network: HostNetwork = HOST_NETWORKS["tcp"]
    """Network between the hosts of the stages."""
    experts: ExpertGroup | None = None
    """Expert parallelism; `chips` are then those of one host."""

    def step_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step: the longer of compute and memory time, plus the rest.

        A mixture-of-experts model reads more of its weights as the batch grows.
        """
        tokens = load.prefill_tokens + load.decode_tokens
        if tokens == 0:
            return 0.0
        reached = self.efficiency or efficiency_of(self.accelerator)
        compute = self.compute_seconds(load) / reached.prefill
        if self.model.is_mixture:
            compute *= reached.mixture
        memory = self.memory_seconds(load) / reached.decode
        adapters = adapter_factor(load.adapters)
        return (
            max(compute, memory) * adapters + self.link_seconds(tokens) + reached.overhead_seconds
        )

    def compute_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step's operations at peak compute."""
        return self.flops(load) / (self._peak_flops() * self.chips)

    def memory_seconds(self, load: StepLoad) -> float:
        """Return the duration of a step's reads at peak bandwidth."""
        return self.read_bytes(load) / (self.accelerator.bandwidth_gbps * 1e9 * self.chips)

    def flops(self, load: StepLoad) -> float:
        """Return the floating-point operations of a step: two per parameter and token."""
        tokens = load.prefill_tokens + load.decode_tokens
        width = self.model.query_width or self.model.hidden
        attention = 4.0 * self.model.layers * width * load.attention_pairs
        padding = 0.0
        if self.accelerator.kind == "gpu":  # TPU kernels have other tiles, and their own factor
            padding = self.model.expert_billion * padded_tokens(self.model, tokens)
        return 2e9 * (self.model.active_billion * tokens + padding) + attention

    def read_bytes(self, load: StepLoad) -> float:
        """Return the bytes of weights and KV cache that a step reads."""
        tokens = load.prefill_tokens + load.decode_tokens
        model = self.model
        group = self.experts
        touched = touched_billion(model, tokens)
        if group is not None:
            all_tokens = model.active_billion - model.active_experts * model.expert_billion
            own = experts_touched(model, tokens * group.hosts) * model.expert_billion / group.hosts
            touched = own + all_tokens * group.copies / group.hosts
        weights = touched * 1e9 * model.bits / 8
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
        """Return the time of two all-reduces per layer in a stage, and of the hops between stages.

        The stages process different parts of the batch in parallel, so only the hops slow down a
        step.
        """
        if self.experts is not None:
            return self._all_to_all_seconds(tokens, self.experts)
        network = self.network
        hop = network.latency_seconds + tokens * self.model.hidden * 2 / (network.gbps * 1e9)
        hops = (self.stages - 1) * hop
        chips = self.chips // self.stages
        if chips == 1:
            return hops
        moved = 2 * (chips - 1) / chips * tokens * self.model.hidden * 2
        one = COLLECTIVE_LATENCY_SECONDS + moved / (self.accelerator.link_gbps * 1e9)
        return 2 * self.model.layers * one + hops

    def _all_to_all_seconds(self, tokens: int, group: ExpertGroup) -> float:
        """Return the time to send tokens to their experts and the results back, in each layer.

        Tokens are sent in 8 bits and returned in 16, as DeepEP does.
        """
        model, network = self.model, self.network
        elsewhere = min(model.active_experts, group.devices) * (1 - 1 / group.devices)
        moved = tokens / self.chips * elsewhere * model.hidden * 3
        latency, gbps = COLLECTIVE_LATENCY_SECONDS, self.accelerator.link_gbps
        if group.hosts > 1:
            latency, gbps = network.latency_seconds, network.gbps / CHIPS_OF_A_HOST
        return model.layers * (2 * latency + moved / (gbps * 1e9))
