"""What of an accelerator's memory is left for the KV cache, line by line."""

from dataclasses import dataclass

from planner.architectures import Architecture
from planner.chips import RUNTIME_MEMORY_GB, Accelerator
from planner.memory import UTILISATION
from planner.shapes import ModelShape
from planner.steady import STEP_TOKENS, kv_copies

_LIVE_TENSORS = 8
"""Tensors of the hidden size, 16 bits, that a step keeps for each of its tokens. Assumed."""


@dataclass(frozen=True)
class Room:
    """Memory of one replica, in 10^9 bytes."""

    total: float
    """Of all its chips."""
    usable: float
    """The part that the engine may take."""
    weights: float
    reserve: float
    """Runtime, graphs and activations."""
    kv_per_sequence: float
    """KV cache of one sequence of the longest context."""
    lines: tuple[str, ...]
    """The arithmetic, with units."""

    @property
    def left(self) -> float:
        """What is left for the KV cache."""
        return self.usable - self.weights - self.reserve

    @property
    def problem(self) -> str | None:
        """Why the model cannot run, or None."""
        if self.left <= 0:
            return (
                f"needs {self.weights + self.reserve:.1f} GB ({self.weights:.1f} GB of weights and "
                f"{self.reserve:.1f} GB of runtime and activations), has {self.usable:.1f} GB"
            )
        if self.left < self.kv_per_sequence:
            return (
                f"has {self.left:.1f} GB left for the KV cache, one sequence of the whole context "
                f"takes {self.kv_per_sequence:.1f} GB"
            )
        return None


def kv_bytes(shape: ModelShape, tokens: float, kv_bits: int, window: tuple[int, ...]) -> float:
    """Return the KV cache of a sequence: windowed layers keep their window and no more."""
    each = shape.kv_bytes_per_token(kv_bits)
    share = min(1.0, window[1] / shape.layers) if window else 0.0
    return each * ((1 - share) * tokens + share * min(tokens, window[0] if window else tokens))


def room(
    model: Architecture,
    shape: ModelShape,
    chip: Accelerator,
    *,
    tensor: int,
    stages: int = 1,
    context: int,
    kv_bits: int = 16,
    utilisation: float = UTILISATION,
) -> Room:
    """Return the memory of one replica.

    Args:
        model: what runs.
        shape: of the model at the precision it is served in.
        chip: of all its chips.
        tensor: chips a layer is split over.
        stages: pipeline stages.
        context: longest sequence, in tokens.
        kv_bits: of the KV cache.
        utilisation: share of memory that the engine may take.
    """
    chips = tensor * stages
    total = chip.memory_gb * chips
    runtime = RUNTIME_MEMORY_GB[chip.kind] * chips
    activations = STEP_TOKENS * shape.hidden * 2 * _LIVE_TENSORS / 1e9
    copies = kv_copies(shape, tensor)
    kv = kv_bytes(shape, context, kv_bits, model.window) * copies / 1e9
    usable = total * utilisation
    lines = (
        f"memory: {chips} x {chip.memory_gb:g} GB x {utilisation:.0%} = {usable:.1f} GB",
        f"weights: {shape.parameters_billion:g} billion x {shape.bits} bit / 8 = "
        f"{shape.weights_gb:.1f} GB",
        f"runtime and activations: {chips} x {RUNTIME_MEMORY_GB[chip.kind]:g} GB + {STEP_TOKENS} "
        f"tokens x {shape.hidden} x 2 B x {_LIVE_TENSORS} = {runtime + activations:.1f} GB",
        f"KV cache of a token: {shape.kv_bytes_per_token(kv_bits)} B over {shape.layers} layers at "
        f"{kv_bits} bit" + (f", on {copies:g} chips each" if copies > 1 else "") + _windows(model),
        f"KV cache of {context} tokens: {kv:.2f} GB",
    )
    return Room(total, usable, shape.weights_gb, runtime + activations, kv, lines)


def _windows(model: Architecture) -> str:
    if not model.window:
        return ""
    return f"; {model.window[1]} of {model.layers} layers keep {model.window[0]} tokens at most"
